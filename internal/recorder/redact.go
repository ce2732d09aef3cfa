package recorder

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/seal"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// redact removes from entries what may not be in a recording; it changes the bytes of their messages. Only what
// vocabulary.txt allows stays: keys, numbers, and words as values of structural keys. All else is masked:
//
//   - What comes in gets pseudonyms: a run of letters or of digits becomes another run of as many lower-case
//     and upper-case letters or digits, the same for the same run within one recording. Its key is random.
//   - What goes out keeps only its shape: each letter becomes an x, each digit a 0. So if a replay gets the
//     masked events, the shape of its answer is that of the recorded one.
//   - Other characters become one of as many bytes, base64 a filler. White space and punctuation stay.
//   - The values of unknown keys in lines of the protocol are left out: paths, accounts, configuration.
//
// With texts, the bodies and the texts of the protocol stay, except values of keys such as password.
func redact(entries []Entry, texts bool) {
	r := &redactor{texts: texts, seed: maphash.MakeSeed(), pseudonyms: make(map[string]string), taken: make(map[string]bool), deltas: make(map[string][][]byte)}
	var out []byte
	for i := range entries {
		e := &entries[i]
		r.dir, r.ours = e.Dir, i == 0 || e.Dir == Noted || e.Dir == End
		at := place{}
		switch {
		case e.Dir == Parts:
			continue
		case e.Dir == ToClient:
			out = append(out, e.Text...)
			fallthrough
		case e.Dir == FromClient && i > 0:
			if at.free = texts; !texts && e.Dir == FromClient {
				text := []byte(e.Text)
				r.pseudonymize(text, 0)
				e.Text = string(text)
			}
		case e.Dir == ToServer && len(e.Message) > maxLine:
			e.Message = cutLine(e.Message)
		case e.Dir == FromServer:
			r.item = itemOf(e.Message)
		case e.Dir == End:
			r.estimated = bytes.Contains(e.Message, []byte(`"usage_estimated":true`))
		}
		e.Message = r.redactJSON(e.Message, at)
	}
	r.redactDeltas()
	r.dir, r.ours = ToClient, false
	r.redactOutput(out)
	for i := range entries {
		e := &entries[i]
		e.Message = bytes.ReplaceAll(e.Message, []byte{0}, nil) // only now: the deltas are parts of the messages
		if e.Dir == ToClient {
			e.Text, out = strings.ReplaceAll(string(out[:len(e.Text)]), "\x00", ""), out[len(e.Text):]
		}
	}
}

// maxLine is how many bytes of a line to the app-server are kept.
const maxLine = 256 << 10

func cutLine(line []byte) []byte {
	id, method := wirejson.Value("null"), wirejson.Value("null")
	wirejson.Value(line).Pick(wirejson.Into("id", &id), wirejson.Into("method", &method))
	return fmt.Appendf(nil, `{"id":%s,"method":%s,"cut":%d}`, id, method, len(line))
}

// itemOf returns what a line with a delta belongs to.
func itemOf(line []byte) string {
	var method, params, item, index wirejson.Value
	if bytes.Contains(line, []byte(`"delta"`)) {
		wirejson.Value(line).Pick(wirejson.Into("method", &method), wirejson.Into("params", &params))
		params.Pick(wirejson.Into("itemId", &item), wirejson.Into("summaryIndex", &index))
	}
	return string(method) + string(item) + string(index)
}

type redactor struct {
	texts      bool
	dir        Dir  // of the entry
	ours       bool // the entry is what this server says: the head, a note, the end
	estimated  bool
	item       string // what a delta belongs to
	deltas     map[string][][]byte
	seed       maphash.Seed
	pseudonyms map[string]string
	taken      map[string]bool
}

// place is where a value is.
type place struct {
	uses                         uses
	free, opaque, schema, member bool // all stays; nothing does; it is within a schema; it is an object of properties
	out                          bool // it is left out
}

func (r *redactor) redactJSON(text []byte, at place) []byte {
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return nil
	}
	r.walk(wirejson.NewCursor(text), at)
	return text
}

func (r *redactor) walk(c *wirejson.Cursor, at place) {
	kind := c.Kind()
	if kind == wirejson.KindObject && at.uses&opaqueObject != 0 && !at.free {
		at = place{opaque: true}
	}
	switch {
	case at.out:
		leaveOut(c.Skip())
	case at.opaque && r.dir == ToClient:
		shape(c.Skip())
	case kind == wirejson.KindObject:
		for c.Enter(); c.Next(); {
			name := c.Name()
			r.walk(c, r.placeOf(name.RawText(), at))
		}
	case kind == wirejson.KindArray:
		at.uses &^= opaqueObject
		for c.Enter(); c.Next(); {
			r.walk(c, at)
		}
	case kind == wirejson.KindString:
		r.redactString(c.Skip().RawText(), at)
	case kind == wirejson.KindNumber:
		r.redactNumber(c.Skip(), at)
	default:
		c.Skip()
	}
}

// leaveOut makes a value empty. Its other bytes become 0, and are removed at last.
func leaveOut(v wirejson.Value) {
	keep := 2
	switch v.Kind() {
	case wirejson.KindNumber:
		v[0], keep = '0', 1
	case wirejson.KindString, wirejson.KindArray, wirejson.KindObject:
		v[1] = v[len(v)-1]
	default:
		keep = len(v)
	}
	clear(v[keep:])
}

// placeOf returns where the value of a key is, and masks the key if it may not stay.
func (r *redactor) placeOf(key []byte, at place) place {
	u := vocabulary[string(key)]
	known := u&^(word|failureWord|canonWord) != 0
	next := place{uses: u, schema: at.schema}
	protocol := r.dir == ToServer || r.dir == FromServer
	switch {
	case at.free:
		return place{free: true, out: !known && privateKeys.Match(key)}
	case at.member, at.opaque:
		if u&canonWord == 0 {
			r.mask(key, 0)
		}
		return place{opaque: at.opaque, schema: at.member}
	case !known:
		r.mask(key, 0)
		return place{opaque: true, out: protocol}
	}
	next.free = r.texts && protocol && u&plainText != 0 || r.ours && u&own != 0
	next.member = u&propertyNames != 0
	next.schema = next.schema || u&schema != 0
	next.opaque = u&opaque != 0 && at.uses&tokenCount == 0
	return next
}

func (r *redactor) redactString(text []byte, at place) {
	u, fromServer := at.uses, r.dir == FromServer
	switch {
	case at.free, u&structural != 0 && vocabulary[string(text)]&word != 0, u&model != 0 && (r.texts || modelNames.Match(text)), r.ours && u&header != 0:
	case r.ours && u&route != 0:
		for segment := range bytes.SplitSeq(text, []byte("/")) {
			if vocabulary[string(segment)]&word == 0 {
				r.redactID(segment)
			}
		}
	case u&identity != 0:
		r.redactID(text)
	case r.dir != ToClient && seal.IsSealed(string(text)):
		r.mask(text[bytes.IndexByte(text, '.'):], 0) // with the beginning, by which this server knows it
	case r.dir == ToClient && u&binary != 0:
		fill(text, 'x')
	case r.texts && !r.ours && r.dir != ToClient && u&(plainText|plainString) != 0:
	case fromServer && u&deltaText != 0:
		r.deltas[r.item] = append(r.deltas[r.item], text)
	case u&plainText == 0 && r.redactBinary(text):
	case r.ours, fromServer && (u&failureText != 0 || bytes.HasPrefix(text, []byte("unsupported call: ")) || bytes.HasPrefix(text, []byte("image generation failed: "))):
		r.redactFailure(text)
	default:
		r.mask(text, 0)
	}
}

func (r *redactor) redactNumber(number []byte, at place) {
	switch out := r.dir == ToClient; {
	case at.free:
	case out && r.estimated && at.uses&tokenCount != 0:
		leaveOut(number)
	case at.schema || at.opaque:
		if out {
			shape(number)
			return
		}
		for i, end := 0, 0; i < len(number); i = end + 1 {
			for end = i; end < len(number) && isDigit(number[end]); end++ {
			}
			r.pseudonym(number[i:end])
		}
	}
}

// redactID masks an id, unless it is a word of the vocabulary, such as new. The part before _ or - stays if it is one.
func (r *redactor) redactID(id []byte) {
	if vocabulary[string(id)]&word != 0 {
		return
	}
	if r.dir == ToClient {
		shape(id)
		copy(id, bytes.ReplaceAll(id, []byte("0"), []byte("x")))
		return
	}
	if end := bytes.IndexAny(id, "_-"); end > 0 && vocabulary[string(id[:end])]&word != 0 {
		id = id[end:]
	}
	if bytes.ContainsFunc(id, func(c rune) bool { return c == '\\' || c >= utf8.RuneSelf }) {
		r.mask(id, 0)
		return
	}
	r.pseudonym(id)
}

// redactBinary fills base64, and reports whether the text is that. The first bytes of a picture stay.
func (r *redactor) redactBinary(text []byte) bool {
	head, data, isURL := bytes.Cut(text, []byte(";base64,"))
	switch isURL = isURL && bytes.HasPrefix(head, []byte("data:")); {
	case !isURL && (len(text) < 64 || !wirejson.IsBase64(text)):
		return false
	case r.dir == ToClient:
		fill(text, 'x')
		return true
	case !isURL:
		data = text
	case vocabulary[string(head[len("data:"):])]&word == 0:
		r.mask(head[len("data:"):], 0)
	}
	for _, magic := range []string{"iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR"} {
		if bytes.HasPrefix(data, []byte(magic)) {
			data = data[min(16, len(data)):]
			break
		}
	}
	fill(bytes.TrimRight(data, "="), 'A')
	return true
}

func fill(text []byte, with byte) {
	for i := range text {
		text[i] = with
	}
}

// redactFailure masks a message about a failure; the words that the error for the client depends on stay.
func (r *redactor) redactFailure(text []byte) {
	masked := bytes.Clone(text)
	r.pseudonymize(masked, failureWord)
	if r.texts && !r.ours {
		for _, part := range machineParts.FindAllIndex(text, -1) {
			copy(text[part[0]:part[1]], masked[part[0]:])
		}
		return
	}
	for _, hint := range retryHints.FindAllIndex(text, -1) {
		copy(masked[hint[0]:], text[hint[0]:hint[1]])
	}
	copy(text, masked)
}

func (r *redactor) redactDeltas() {
	for _, pieces := range r.deltas { // words may be cut
		text := bytes.Join(pieces, nil)
		r.pseudonymize(text, 0)
		for _, piece := range pieces {
			text = text[copy(piece, text):]
		}
	}
}

// redactOutput masks what goes out, line by line: server-sent events, lines of JSON, or a body.
func (r *redactor) redactOutput(out []byte) {
	for line := range bytes.Lines(out) {
		line = bytes.TrimRight(line, "\r\n")
		field, value, _ := bytes.Cut(line, []byte(": "))
		switch string(field) {
		case "data":
			line = value
		case "event":
			if vocabulary[string(value)]&word != 0 {
				continue
			}
			line = value
		}
		switch {
		case len(line) == 0, string(line) == "[DONE]", string(line) == ": keepalive":
		case wirejson.ValidWithin(1000, line):
			r.walk(wirejson.NewCursor(bytes.TrimSpace(line)), place{free: r.texts})
		case !r.texts:
			shape(line)
		}
	}
}

func (r *redactor) mask(text []byte, keep uses) {
	if r.dir == ToClient {
		shape(text)
		return
	}
	r.pseudonymize(text, keep)
}

// shape makes each letter of a text an x, each digit a 0. Escapes of JSON stay.
func shape(text []byte) {
	for i := 0; i < len(text); {
		switch b := text[i]; {
		case b == '\\':
			i = escapeEnd(text, i)
		case b >= utf8.RuneSelf:
			i = runeEnd(text, i)
		default:
			text[i] = byte(standIn(rune(b)))
			i++
		}
	}
}

// pseudonymize gives each run of letters and each run of digits a pseudonym. What stays are escapes, also those
// of JSON within the text, true, false, null, exponents, and the words of <use_tool> blocks.
func (r *redactor) pseudonymize(text []byte, keep uses) {
	for i := 0; i < len(text); {
		end := i + 1
		switch b := text[i]; {
		case b == '\\' && end < len(text) && text[end] == '\\':
		case b == '\\':
			if end = escapeEnd(text, i); end == i+2 && isLetter(text[i+1]) && !strings.ContainsRune("bfnrt", rune(text[i+1])) {
				end--
			}
		case b >= utf8.RuneSelf:
			end = runeEnd(text, i)
		case isLetter(b):
			if before := bytes.TrimSuffix(text[:i], []byte("/")); bytes.HasSuffix(before, []byte("<")) || bytes.HasSuffix(before, []byte(`\u003c`)) {
				for _, c := range []byte("use_tool") {
					if i == len(text) || text[i] != c {
						break
					}
					i++
				}
			}
			for end = i; end < len(text) && isLetter(text[end]); end++ {
			}
			if end > i && !stays(text, i, end, keep) {
				r.pseudonym(text[i:end])
			}
		case isDigit(b):
			for ; end < len(text) && isDigit(text[end]); end++ {
			}
			if keep&failureWord == 0 || end-i != 3 || b != '4' && b != '5' { // the status of an answer
				r.pseudonym(text[i:end])
			}
		}
		i = end
	}
}

// stays reports whether a run of letters stays.
func stays(text []byte, start, end int, keep uses) bool {
	run := string(text[start:end])
	before, after := byte(0), byte(0)
	if start > 0 {
		before = text[start-1]
	}
	if end < len(text) {
		after = text[end]
	}
	switch run {
	case "true", "false", "null":
		return true
	case "e", "E":
		return isDigit(before) && (isDigit(after) || after == '+' || after == '-')
	}
	if keep != 0 && vocabulary[strings.ToLower(run)]&keep != 0 {
		return true
	}
	return vocabulary[run]&canonWord != 0 && (before == '<' || before == '/' || before == '>' || before == '"' && (after == '"' || after == '\\'))
}

// letters are those of pseudonyms. None begins or continues a keyword, an escape, an exponent or a tag.
const letters = "cdhjkpqvwxyz"

// pseudonym replaces letters and digits. Other bytes stay.
func (r *redactor) pseudonym(run []byte) {
	known, ok := r.pseudonyms[string(run)]
	for try := 0; !ok; try++ {
		state, drawn := maphash.Bytes(r.seed, run)+uint64(try), bytes.Clone(run)
		for i, b := range run {
			state = state*6364136223846793005 + 1442695040888963407
			switch n := state >> 33; {
			case isDigit(b) && i > 0 && isDigit(run[i-1]):
				drawn[i] = '0' + byte(n%10)
			case isDigit(b) && b != '0':
				drawn[i] = '1' + byte(n%9)
			case isLetter(b):
				drawn[i] = letters[n%uint64(len(letters))] - 'a' + b&0x20 + 'A'
			}
		}
		known = string(drawn)
		ok = try == 8 || !r.taken[known] && vocabulary[known] == 0
		r.pseudonyms[string(run)], r.taken[known] = known, true
	}
	copy(run, known)
}

// escapeEnd returns the end of the escape at i, and replaces the character of \uXXXX.
func escapeEnd(text []byte, i int) int {
	if i+6 <= len(text) && text[i+1] == 'u' {
		if unit, err := strconv.ParseUint(string(text[i+2:i+6]), 16, 16); err == nil {
			if to := standIn(rune(unit)); to != rune(unit) {
				copy(text[i+2:], fmt.Sprintf("%04x", to))
			}
			return i + 6
		}
	}
	return min(i+2, len(text))
}

// runeEnd returns the end of the character at i, and replaces it.
func runeEnd(text []byte, i int) int {
	char, size := utf8.DecodeRune(text[i:])
	if char == utf8.RuneError && size == 1 {
		text[i] = '?'
		return i + 1
	}
	return i + utf8.EncodeRune(text[i:], standIn(char))
}

// standIn returns a character that is as long, in UTF-8 and in escapes; spaces and punctuation of ASCII stay.
func standIn(char rune) rune {
	switch {
	case char < utf8.RuneSelf && isLetter(byte(char)):
		return 'x'
	case char < utf8.RuneSelf && isDigit(byte(char)):
		return '0'
	case char < utf8.RuneSelf, unicode.IsSpace(char):
		return char
	case char < 0x800:
		return 'é'
	case char >= 0xd800 && char < 0xdc00: // the first half of a pair
		return 0xd835
	case char >= 0xdc00 && char < 0xe000:
		return 0xdc31
	case char < 0x10000:
		return '中'
	}
	return '𝐱'
}

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }
func isDigit(b byte) bool  { return b >= '0' && b <= '9' }
