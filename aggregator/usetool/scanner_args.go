package usetool

// argsState says where in the value of <args> the lexer is.
type argsState uint8

const (
	argsOff    argsState = iota
	argsBefore           // behind <args>: white space so far
	argsTokens           // inside the value, outside its strings
	argsString           // inside a string
	argsEscape           // behind a backslash in a string
	argsHex              // within the four digits of \uXXXX
)

// argsToken is the kind of the last token outside of strings. Where a string
// may begin, and what may follow it, is what tells a quote too many.
type argsToken uint8

const (
	argsOpening   argsToken = iota // { or [
	argsSeparator                  // , or :
	argsValue                      // a string, } or ]
	argsBare                       // a part of a number, true, false or null
)

// argsVerdict is what a byte tells about the value.
type argsVerdict uint8

const (
	argsGoOn   argsVerdict = iota
	argsDone               // the byte is the last one of a JSON value
	argsBroken             // the value is no JSON, which this byte shows
)

// argsLexer tells strings from tokens in the JSON value of <args>, so that tags
// inside strings do not count. It is no JSON parser: it knows the tokens and
// which may stand beside a string, which is enough to notice soon that a quote
// is missing or one too many. No memory is needed for that, at any depth.
//
// That outside of strings neither < nor a backslash passes bounds what a broken
// value costs. Let one block end at a tag inside a string of its broken value,
// and be the text behind it read again. If a block that is found there has a
// broken value, too, with a tag in a string, before the byte that broke the
// first: its opening tag stood in a string of the first value. Its first quote
// closed that string for the first value and opened one for its own; each later
// quote did likewise, as no backslash stands where one of the two is outside.
// So its tag stood outside the strings of the first value, and broke it: before
// the byte that broke it, a contradiction. Hence no byte is looked at more than
// twice.
type argsLexer struct {
	state argsState
	last  argsToken
	depth int // open { and [
	hex   int // digits of \uXXXX that are to come
}

// begin makes the lexer expect a value.
func (l *argsLexer) begin() {
	*l = argsLexer{state: argsBefore}
}

// active reports whether the lexer is inside a JSON value.
func (l *argsLexer) active() bool {
	return l.state > argsBefore
}

// step looks at one byte. After a verdict other than argsGoOn the lexer is off.
func (l *argsLexer) step(b byte) argsVerdict {
	switch l.state {
	case argsOff:
		return argsGoOn
	case argsBefore:
		return l.before(b)
	case argsTokens:
		return l.token(b)
	case argsString:
		return l.inString(b)
	case argsEscape:
		return l.escape(b)
	default:
		return l.digit(b)
	}
}

// before waits for the value. One that begins otherwise is plain text.
func (l *argsLexer) before(b byte) argsVerdict {
	switch b {
	case ' ', '\t', '\n', '\r':
		return argsGoOn
	case '{', '[':
		l.state, l.last, l.depth = argsTokens, argsOpening, 1
	case '"':
		l.state = argsString
	default:
		l.state = argsOff
	}
	return argsGoOn
}

// token goes on outside of strings.
func (l *argsLexer) token(b byte) argsVerdict {
	switch b {
	case ' ', '\t', '\n', '\r':
		return argsGoOn
	case '"':
		if l.last == argsValue || l.last == argsBare {
			return l.stop(argsBroken)
		}
		l.state = argsString
		return argsGoOn
	case '{', '[':
		l.depth++
		l.last = argsOpening
		return argsGoOn
	case '}', ']':
		l.depth--
		return l.valueEnded()
	case ',', ':':
		l.last = argsSeparator
		return argsGoOn
	}
	if l.last == argsValue || !isBareByte(b) {
		return l.stop(argsBroken)
	}
	l.last = argsBare
	return argsGoOn
}

// isBareByte reports whether b occurs in a number, true, false or null.
func isBareByte(b byte) bool {
	switch {
	case b >= '0' && b <= '9':
		return true
	case b == '+', b == '-', b == '.', b == 'E':
		return true
	}
	switch b {
	case 'a', 'e', 'f', 'l', 'n', 'r', 's', 't', 'u':
		return true
	}
	return false
}

// inString goes on within a string, in which JSON allows no control character.
func (l *argsLexer) inString(b byte) argsVerdict {
	switch {
	case b == '"':
		l.state = argsTokens
		return l.valueEnded()
	case b == '\\':
		l.state = argsEscape
	case b < ' ':
		return l.stop(argsBroken)
	}
	return argsGoOn
}

// escape goes on behind a backslash.
func (l *argsLexer) escape(b byte) argsVerdict {
	switch b {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		l.state = argsString
	case 'u':
		l.state, l.hex = argsHex, 4
	default:
		return l.stop(argsBroken)
	}
	return argsGoOn
}

// digit goes on within \uXXXX. Which code unit it is does not matter: lone
// surrogates are none of the scanner's business.
func (l *argsLexer) digit(b byte) argsVerdict {
	if (b < '0' || b > '9') && (b|0x20 < 'a' || b|0x20 > 'f') {
		return l.stop(argsBroken)
	}
	l.hex--
	if l.hex == 0 {
		l.state = argsString
	}
	return argsGoOn
}

// valueEnded notes the end of a string, object or array, the whole value's if
// nothing is open any more.
func (l *argsLexer) valueEnded() argsVerdict {
	l.last = argsValue
	if l.depth == 0 {
		return l.stop(argsDone)
	}
	return argsGoOn
}

// stop turns the lexer off.
func (l *argsLexer) stop(verdict argsVerdict) argsVerdict {
	l.state = argsOff
	return verdict
}
