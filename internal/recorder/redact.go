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
	size := 0
	for i := range entries {
		if e := &entries[i]; e.Dir == ToClient {
			size += len(e.Text)
		}
	}
	out := make([]byte, 0, size)
	for i := range entries {
		e := &entries[i]
		r.begin(e, i == 0)
		if e.Dir != Parts && len(e.Message) > 0 {
			r.json(e.Message)
		}
		if e.Dir == ToClient {
			out = append(out, e.Text...)
		} else if e.Text != "" {
			text := []byte(e.Text)
			r.value("", text)
			e.Text = string(text)
		}
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
	for line := range bytes.Lines(out) {
		if len(line) > 1 {
			r.json(line)
		}
	}
	estimated := !texts && bytes.Contains(entries[len(entries)-1].Message, []byte(`"usage_estimated":true`))
	for i := range entries {
		if e := &entries[i]; e.Dir == ToClient {
			e.Text, out = string(out[:len(e.Text)]), out[len(e.Text):]
			if estimated && strings.Contains(e.Text, `_`) { // also from the texts
				e.Text = tokenCounts.ReplaceAllString(e.Text, "${1}0")
			}
		}
	}
}

// begin prepares for the message of an entry, and cuts it if it is too large.
func (r *redactor) begin(e *Entry, isHead bool) {
	r.dir, r.line, r.item, r.ours = e.Dir, e.Message, "", isHead || e.Dir == Noted || e.Dir == End
	r.failure, r.raw = r.ours, r.texts && !r.ours
	switch e.Dir {
	case FromServer: // in the form that Codex writes; what a line in another form says of a failure is masked like a text
		r.failure = bytes.HasPrefix(e.Message, []byte(`{"method":"error"`)) || bytes.HasPrefix(e.Message, []byte(`{"method":"warning"`)) || bytes.Contains(e.Message, []byte(`"error":{`))
		r.raw = r.raw && bytes.HasPrefix(e.Message, []byte(`{"method":`))
	case ToServer:
		var id, method wirejson.Value
		wirejson.Value(e.Message).Pick(wirejson.Into("id", &id), wirejson.Into("method", &method))
		r.raw = r.raw && !method.Is("thread/start")
		if len(e.Message) > maxLine {
			e.Message = fmt.Appendf(nil, `{"id":%s,"method":%s,"cut":%d}`, cmp.Or(string(id), "null"), cmp.Or(string(method), "null"), len(e.Message))
		}
	}
}

// maxLine is how many bytes a line to the app-server may have. Of a longer one, only the size is recorded.
const maxLine = 256 << 10

var (
	modelNames  = regexp.MustCompile(`^(?:gpt|o\d|codex)(?:[.-]?(?:\d{1,4}|[a-z]|codex|mini|nano|max|pro|chat|image|auto|review|latest|preview|spark|sol|luna|terra|astra|reserve)){0,6}$`)
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
	item               string // what the deltas in the line belong to; empty: not looked up yet
	ours, failure, raw bool   // of the entry: this server itself says it; it is about a failure; its texts stay
	deltas             map[string][][]byte
	seed               maphash.Seed
	pseudonyms         map[string]string
	taken              map[string]bool // pseudonyms
	last               lastLine
}

// lastLine is the JSON that was masked before. Most lines begin like the one before, and are then masked alike.
type lastLine struct {
	dir          Dir
	failure, raw bool
	text, masked []byte
	marks        []mark // where its keys begin
}

// mark is where a key begins, and what was known there.
type mark struct {
	at, depth, inside int
	key               string // the key before
}

// reuse masks the beginning of a text like that of the last line, and returns where the rest of it begins.
func (r *redactor) reuse(text []byte) (from mark) {
	l := &r.last
	same := 0
	if l.dir == r.dir && l.failure == r.failure && l.raw == r.raw {
		for same < min(len(text), len(l.text)) && text[same] == l.text[same] {
			same++
		}
	}
	for len(l.marks) > 0 && l.marks[len(l.marks)-1].at > same {
		l.marks = l.marks[:len(l.marks)-1]
	}
	if n := len(l.marks); n > 0 {
		from = l.marks[n-1]
		l.marks = l.marks[:n-1]
	}
	l.dir, l.failure, l.raw, l.text = r.dir, r.failure, r.raw, append(l.text[:from.at], text[from.at:]...)
	copy(text, l.masked[:from.at])
	return from
}

// json masks a text of JSON, or a line with JSON.
func (r *redactor) json(text []byte) {
	from := r.reuse(text)
	key, depth, inside := from.key, from.depth, from.inside // inside: the depth of the arguments of a call, whose keys are no words
	reusable := true
	for i, start := from.at, 0; i < len(text); {
		start = i
		switch b := text[i]; b {
		case '"':
			i = stringEnd(text, i)
			value, next := text[start+1:max(start+1, i-1)], i
			for next < len(text) && strings.IndexByte(" \t\r\n", text[next]) >= 0 {
				next++
			}
			if next == len(text) || text[next] != ':' {
				r.value(key, value)
				reusable = reusable && key != "delta" // which is masked later, with those of other lines
				continue
			}
			if reusable {
				r.last.marks = append(r.last.marks, mark{start, depth, inside, key})
			}
			if key = string(value); inside == 0 && vocabulary[key]&word == 0 {
				r.mask(value, word)
			} else if inside > 0 && vocabulary[key]&tag == 0 {
				r.mask(value, 0)
			}
			continue
		case '{', '[':
			isValue := bytes.HasSuffix(bytes.TrimRight(text[:i], " "), []byte{':'})
			if depth++; inside == 0 && isValue && b == '{' && (key == "arguments" || key == "input") {
				inside = depth
			}
		case '}', ']':
			if key, depth = "", depth-1; depth < inside {
				inside = 0
			}
		}
		for i++; i < len(text) && strings.IndexByte("\"{}[]", text[i]) < 0; i++ {
		}
		if inside > 0 || vocabulary[key]&word == 0 || key == "context" { // Ollama's has a conversation as tokens
			r.mask(text[start:i], word)
		} else {
			r.mask(text[start:i], word|number)
		}
	}
	r.last.masked = append(r.last.masked[:from.at], text[from.at:]...)
}

// stringEnd returns the end of the string that begins at i, or of the text.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(text))
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
		if r.item == "" { // once for a line, which may have any number of them
			r.item = itemOf(r.line)
		}
		r.deltas[r.item] = append(r.deltas[r.item], text)
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

// itemOf returns to what the delta in a line belongs.
func itemOf(line []byte) (item string) {
	for _, key := range []string{`"method":`, `"itemId":`, `"summaryIndex":`} {
		if _, value, ok := bytes.Cut(line, []byte(key)); ok {
			item += string(value[:max(bytes.IndexAny(value, ",}"), 0)])
		}
	}
	return item + " "
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
