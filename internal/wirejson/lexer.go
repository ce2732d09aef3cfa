package wirejson

import "strings"

// lexerState says where in the value a Lexer is.
type lexerState uint8

const (
	lexerOff         lexerState = iota // all bytes are ignored
	lexerBeforeValue                   // before the first byte of the value
	lexerTokens                        // inside the value, outside its strings
	lexerString                        // inside a string
	lexerEscape                        // after a backslash in a string
	lexerHex                           // within the four digits of \uXXXX
)

// lexerToken is the kind of the last token. It serves to notice a surplus quote: such a quote begins a
// string where JSON allows none, or ends a string too early, so that the next token is wrong.
type lexerToken uint8

const (
	tokenBeforeValue lexerToken = iota // { [ , or :
	tokenValue                         // a string, } or ]
	tokenLiteral                       // a part of a number, true, false or null
)

// Verdict is the result of [Lexer.Step] for a byte.
type Verdict uint8

const (
	// MoreJSON says that the value goes on.
	MoreJSON Verdict = iota
	// EndOfJSON says that the byte is the last one of the value.
	EndOfJSON
	// BrokenJSON says that the byte makes the value invalid JSON.
	BrokenJSON
)

// Lexer finds the end of a JSON value that comes byte by byte. It only checks the characters of each
// token, and which tokens are next to a string: enough to notice a missing or surplus quote soon.
// Brackets are only counted, whatever the depth. The zero value ignores all bytes until [Lexer.Begin].
type Lexer struct {
	state lexerState
	last  lexerToken
	depth int // how many { and [ are open
	hex   int // how many digits of \uXXXX are still to come
}

// Begin makes the lexer expect a value, after any white space.
func (l *Lexer) Begin() { *l = Lexer{state: lexerBeforeValue} }

// Active reports whether the lexer is inside a JSON value.
func (l *Lexer) Active() bool { return l.state > lexerBeforeValue }

// Step looks at the next byte. After a verdict other than MoreJSON, it ignores all bytes until Begin. It
// also ignores them if the first byte begins no object, array or string: such a value counts as plain text.
func (l *Lexer) Step(b byte) Verdict {
	switch l.state {
	case lexerBeforeValue:
		l.before(b)
	case lexerTokens:
		return l.token(b)
	case lexerString: // JSON allows no control character in a string
		switch {
		case b == '"':
			l.state = lexerTokens
			return l.valueEnded()
		case b == '\\':
			l.state = lexerEscape
		case b < ' ':
			return l.stop(BrokenJSON)
		}
	case lexerEscape:
		switch b {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			l.state = lexerString
		case 'u':
			l.state, l.hex = lexerHex, 4
		default:
			return l.stop(BrokenJSON)
		}
	case lexerHex: // any four hexadecimal digits are valid, even if they are a lone surrogate
		if (b < '0' || b > '9') && (b|0x20 < 'a' || b|0x20 > 'f') {
			return l.stop(BrokenJSON)
		}
		if l.hex--; l.hex == 0 {
			l.state = lexerString
		}
	}
	return MoreJSON
}

func (l *Lexer) before(b byte) {
	switch b {
	case ' ', '\t', '\n', '\r':
	case '{', '[':
		l.state, l.last, l.depth = lexerTokens, tokenBeforeValue, 1
	case '"':
		l.state = lexerString
	default:
		l.state = lexerOff
	}
}

// token reads a byte inside the value and outside its strings.
func (l *Lexer) token(b byte) Verdict {
	switch b {
	case ' ', '\t', '\n', '\r':
	case '"':
		if l.last != tokenBeforeValue {
			return l.stop(BrokenJSON)
		}
		l.state = lexerString
	case '{', '[':
		l.depth++
		l.last = tokenBeforeValue
	case '}', ']':
		l.depth--
		return l.valueEnded()
	case ',', ':':
		l.last = tokenBeforeValue
	default:
		if l.last == tokenValue || strings.IndexByte("0123456789+-.Eaeflnrstu", b) < 0 {
			return l.stop(BrokenJSON)
		}
		l.last = tokenLiteral
	}
	return MoreJSON
}

// valueEnded records the end of a string, object or array: of the whole value if no bracket is open.
func (l *Lexer) valueEnded() Verdict {
	l.last = tokenValue
	if l.depth == 0 {
		return l.stop(EndOfJSON)
	}
	return MoreJSON
}

func (l *Lexer) stop(verdict Verdict) Verdict {
	l.state = lexerOff
	return verdict
}
