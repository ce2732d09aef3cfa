package recorder

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/seal"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// redact masks what may not be in a recording, in place. Only the words of vocabulary.txt stay: in keys, and in
// strings without white space. Numbers stay under keys of the vocabulary. In all else
//
//   - that comes in, a run of letters or of digits becomes another one of as many lower-case and upper-case
//     letters or digits. In one recording, it is the same for the same run;
//   - that goes out, letters and digits become x. So the answer to masked events has the shape of the recorded one.
//
// Other characters become one of as many bytes; white space and punctuation stay. With texts, all stays but the
// head, notes, how threads are started, addresses and paths in messages about failures, and values of private keys.
func redact(entries []Entry, texts bool) {
	r := &redactor{texts: texts, seed: maphash.MakeSeed(), pseudonyms: make(map[string]string), taken: make(map[string]bool), deltas: make(map[string][][]byte)}
	var out []byte
	for i := range entries {
		e := &entries[i]
		protocol := e.Dir == ToServer || e.Dir == FromServer
		var id, method wirejson.Value
		if protocol {
			wirejson.Value(e.Message).Pick(wirejson.Into("id", &id), wirejson.Into("method", &method))
		}
		if e.Dir == ToServer && len(e.Message) > maxLine {
			e.Message = fmt.Appendf(nil, `{"id":%s,"method":%s,"cut":%d}`, cmp.Or(string(id), "null"), cmp.Or(string(method), "null"), len(e.Message))
		}
		r.dir, r.line, r.ours = e.Dir, e.Message, i == 0 || e.Dir == Noted || e.Dir == End
		r.failure = r.ours || e.Dir == FromServer && (method.Is("error") || method.Is("warning") || bytes.Contains(e.Message, []byte(`"error":{`)))
		r.raw = texts && !r.ours && (!protocol || (e.Dir == ToServer || method != nil) && !method.Is("thread/start") && !method.Is("thread/resume"))
		if e.Dir != Parts {
			r.json(e.Message)
		}
		text := []byte(e.Text)
		if e.Dir == ToClient {
			out = append(out, text...)
			continue
		}
		r.value("", text)
		e.Text = string(text)
	}
	*r = redactor{texts: texts, dir: FromServer, seed: r.seed, pseudonyms: r.pseudonyms, taken: r.taken, deltas: r.deltas}
	for _, pieces := range r.deltas { // of which words may be cut
		text := bytes.Join(pieces, nil)
		r.value("", text)
		for _, piece := range pieces {
			text = text[copy(piece, text):]
		}
	}
	r.dir, r.raw = ToClient, texts
	r.json(out)
	estimated := !texts && bytes.Contains(entries[len(entries)-1].Message, []byte(`"usage_estimated":true`))
	for i := range entries {
		if e := &entries[i]; e.Dir == ToClient {
			e.Text, out = string(out[:len(e.Text)]), out[len(e.Text):]
			if estimated { // also from the texts
				e.Text = tokenCounts.ReplaceAllString(e.Text, "${1}0")
			}
		}
	}
}

// maxLine is how many bytes a line to the app-server may have. Of a longer one, only the size is recorded.
const maxLine = 256 << 10

var (
	calls       = regexp.MustCompile(`"(?:arguments|input)": *\{$`)
	itemKeys    = regexp.MustCompile(`"(?:method|itemId|summaryIndex)":(?:"[^"]*"|\d+)`)
	modelNames  = regexp.MustCompile(`^(?:gpt|o\d|codex)[a-z0-9.-]{0,40}$`)
	tokenCounts = regexp.MustCompile(`("[a-z_]*(?:tokens|eval_count)":)\d+`)
	// pictures matches the beginning of a picture's base64, with the size of a PNG.
	pictures = regexp.MustCompile(`^(?:iVBORw0KGgo[\w+/]{33}|/9j/[\w+/]{12}|R0lGOD[\w+/]{10}|UklGR[\w+/]{11})`)
	// machineParts matches the parts of a message that may be an address or a path, which a client does not get.
	machineParts = regexp.MustCompile(`(?:^|[\s"'(=])/[^\s"'()]*|[^\s"'()]*(?:[@~]|:\\?/|\d\.\d+\.\d|[a-z\]]:\d|\\\\)[^\s"'()]*`)
	// privateKeys matches keys whose strings are masked even if texts are recorded.
	privateKeys = regexp.MustCompile(`(?i)authorization|cookie|api[-_]?key|secret|passw|credential|private[-_]?key|token$|e-?mail|` +
		`^(?:cwd|codex_?home|(?:base|server)_?url)$`)
)

// redactor redacts one recording.
type redactor struct {
	texts              bool
	dir                Dir
	line               []byte
	ours, failure, raw bool // of the entry: this server itself says it; it is about a failure; its texts stay
	deltas             map[string][][]byte
	seed               maphash.Seed
	pseudonyms         map[string]string
	taken              map[string]bool // pseudonyms
}

// json masks JSON, or a stream of JSON with other lines.
func (r *redactor) json(text []byte) {
	key, depth, inside := "", 0, 0 // inside: the depth of the arguments of a call, whose keys are no words
	for i, start := 0, 0; i < len(text); {
		start = i
		switch b := text[i]; b {
		case '"':
			for i++; i < len(text) && text[i] != '"' && text[i] != '\n'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			i = min(i, len(text))
			value := text[start+1 : i]
			i = min(i+1, len(text))
			if rest := bytes.TrimLeft(text[i:], " \t\r\n"); len(rest) == 0 || rest[0] != ':' {
				r.value(key, value)
			} else if key = string(value); inside == 0 && vocabulary[key]&word == 0 {
				r.mask(value, word)
			} else if inside > 0 && vocabulary[key]&tag == 0 {
				r.mask(value, 0)
			}
			continue
		case '\n':
			key = ""
		case '{', '[':
			if depth++; inside == 0 && calls.Match(text[max(0, i-16):i+1]) {
				inside = depth
			}
		case '}', ']':
			if key, depth = "", depth-1; depth < inside {
				inside = 0
			}
		}
		for i++; i < len(text) && strings.IndexByte("\"{}[]\n", text[i]) < 0; i++ {
		}
		if inside > 0 || vocabulary[key]&word == 0 {
			r.mask(text[start:i], word)
		} else {
			r.mask(text[start:i], word|number)
		}
	}
}

// value masks the string of a key. Base64 stays base64, and that of a picture begins like one.
func (r *redactor) value(key string, text []byte) {
	keep, data, sealed := word, text, seal.IsSealed(string(text[:min(len(text), 32)]))
	if bytes.ContainsAny(text, " \\") {
		if keep = 0; r.failure { // not in ids, which are the same in all lines
			keep = failureWord
		}
	}
	if _, behind, ok := bytes.Cut(text, []byte("base64,")); ok {
		data = behind
	}
	switch {
	case r.raw && vocabulary[key]&word == 0 && privateKeys.MatchString(key):
		r.mask(text, always)
	case r.raw && r.failure:
		for _, part := range machineParts.FindAllIndex(text, -1) {
			if part := text[part[0]:part[1]]; !failures.IsHelpPage(string(part)) {
				r.mask(part, failureWord|always)
			}
		}
	case r.raw, r.texts && (key == "id" || key == "threadId"), r.ours && (key == "request_id" || key == "time" || key == "proto"):
	case r.dir == FromServer && key == "delta":
		item := string(bytes.Join(itemKeys.FindAll(r.line, -1), nil))
		r.deltas[item] = append(r.deltas[item], text)
	case key == "model" && (r.texts || modelNames.Match(text)), r.dir != ToClient && vocabulary[string(text)]&keep != 0:
	case sealed && r.dir == ToClient: // it differs in each answer
		copy(text, bytes.Repeat([]byte("x"), len(text)))
	case sealed:
		r.mask(text[bytes.IndexByte(text, '.'):], 0)
	case r.dir != ToClient && len(data) >= 64 && wirejson.IsBase64(data):
		r.mask(text[:len(text)-len(data)], keep)
		r.pseudonym(data[len(pictures.Find(data)):])
	case r.dir == ToClient:
		r.mask(text, 0)
	default:
		r.mask(text, keep)
	}
}

// mask masks the inside of a JSON string, or another text, and does not change its size. Escapes stay, also those of
// JSON within the text.
func (r *redactor) mask(text []byte, keep int) {
	in := r.dir != ToClient
	for i := 0; i < len(text) && (!r.raw || keep&always != 0); {
		start, b := i, text[i]
		switch i++; {
		case b == '\\':
			for ; in && i < len(text) && text[i] == '\\'; i++ {
			}
			i = escapeEnd(text, i)
		case b >= utf8.RuneSelf:
			char, size := utf8.DecodeRune(text[start:])
			if i = start + size; !unicode.IsSpace(char) {
				copy(text[start:i], [...]string{1: "?", 2: "é", 3: "中", 4: "𝐱"}[size])
			}
		case isDigit(b) && keep&number != 0:
		case isLetter(b) || isDigit(b):
			for ; i < len(text) && (isLetter(text[i]) || isDigit(text[i])); i++ {
			}
			if keep&word != 0 && vocabulary[string(text[start:i])]&word != 0 {
				continue
			}
			if !in {
				copy(text[start:i], bytes.Repeat([]byte("x"), i-start))
				continue
			}
			start += tagPart(text, start)
			for i = start; i < len(text) && (isLetter(text[i]) && isLetter(text[start]) || isDigit(text[i]) && isDigit(text[start])); i++ {
			}
			if !stays(text, start, i, keep) {
				r.pseudonym(text[start:i])
			}
		}
	}
}

// tagPart returns how many bytes at start begin the name of a tag <use_tool> or </use_tool>: what reads blocks holds
// them back.
func tagPart(text []byte, start int) (n int) {
	const name = "use_tool"
	before := bytes.TrimSuffix(text[:start], []byte("/"))
	if bytes.HasSuffix(before, []byte("<")) || bytes.HasSuffix(before, []byte(`\u003c`)) {
		for n < len(name) && start+n < len(text) && text[start+n] == name[n] {
			n++
		}
	}
	return n
}

// stays reports whether a run of letters or digits stays in what comes in.
func stays(text []byte, start, end, keep int) bool {
	run, before, after := wirejson.Text(text[start:end]), text[max(start-1, 0)], text[min(end, len(text)-1)] // of the run, if there is no other
	switch {
	case run == "true", run == "false", run == "null", keep != 0 && vocabulary[run]&keep != 0, keep&failureWord != 0 && vocabulary[strings.ToLower(run)]&failureWord != 0:
		return true
	case run == "e", run == "E": // of an exponent
		return isDigit(before) && (isDigit(after) || after == '+' || after == '-')
	case run == "" || isDigit(run[0]): // the status of an answer, or a time to wait
		return run == "" || keep&failureWord != 0 && (len(run) == 3 && (run[0] == '4' || run[0] == '5') || len(run) < 4 && strings.IndexByte("hms", after) >= 0)
	}
	return (strings.IndexByte("</>", before) >= 0 || before == '"' && (after == '"' || after == '\\')) && vocabulary[run]&tag != 0
}

// escapeEnd returns the end of an escape whose backslash is before i, and masks the character of \uXXXX.
func escapeEnd(text []byte, i int) int {
	switch {
	case i == len(text) || strings.IndexByte(`"\/bfnrtu`, text[i]) < 0:
		return i
	case text[i] != 'u':
		return i + 1
	}
	char, err := strconv.ParseUint(string(text[i+1:min(i+5, len(text))]), 16, 16)
	if err != nil || i+5 > len(text) {
		return i
	}
	if c := byte(char); char < utf8.RuneSelf && (isLetter(c) || isDigit(c)) || char >= utf8.RuneSelf && !unicode.IsSpace(rune(char)) {
		copy(text[i+1:], "4e2d") // a letter of three bytes, as each half of a pair is alone
	}
	return i + 5
}

// letters are those of pseudonyms. None begins or continues a keyword, an escape, an exponent or a tag.
const letters = "cdhjkpqvwxyz"

// pseudonym replaces the letters and digits of a run. Other bytes stay.
func (r *redactor) pseudonym(run []byte) {
	known, ok := r.pseudonyms[string(run)]
	for try := 0; !ok; try++ {
		state, drawn := bits.RotateLeft64(maphash.Bytes(r.seed, run), try), bytes.Clone(run)
		for i, b := range run {
			state = state*6364136223846793005 + 1442695040888963407
			switch n := state >> 33; {
			case isLetter(b):
				drawn[i] = letters[n%uint64(len(letters))] - 'a' + 'A' + b&0x20
			case isDigit(b) && i > 0 && isDigit(run[i-1]):
				drawn[i] = '0' + byte(n%10)
			case isDigit(b) && b != '0': // a number may not begin with more zeros
				drawn[i] = '1' + byte(n%9)
			}
		}
		if known = string(drawn); try == 64 || !r.taken[known] && vocabulary[known] == 0 {
			ok, r.taken[known], r.pseudonyms[string(run)] = true, true, known
		}
	}
	copy(run, known)
}

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }
func isDigit(b byte) bool  { return b >= '0' && b <= '9' }
