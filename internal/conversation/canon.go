package conversation

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// Hash names a conversation up to some message.
type Hash [sha256.Size]byte

// digest hashes a sequence of fields. Each is preceded by its length, so that no
// two sequences are hashed alike.
type digest struct{ hash.Hash }

func newDigest() digest { return digest{sha256.New()} }

// field adds one field.
func (d digest) field(text string) { d.bytes(jsontext.View(text)) }

// bytes adds one field.
func (d digest) bytes(text []byte) {
	d.number(len(text))
	_, _ = d.Write(text) // a hash takes everything
}

// number adds a number.
func (d digest) number(n int) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	_, _ = d.Write(b[:])
}

func (d digest) sum() (h Hash) {
	d.Sum(h[:0])
	return h
}

// canonicalArguments is the JSON value of a call's arguments in one spelling:
// members in order of their names, numbers as short as they can be. Text that is
// no JSON stays as it is. No text at all is an empty object, as which Codex gets it.
func canonicalArguments(text string) string {
	if text == "" {
		return "{}"
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil || decoder.More() {
		return text
	}
	canonical, err := json.Marshal(shortNumbers(value))
	if err != nil {
		return text
	}
	return string(canonical)
}

// shortNumbers replaces the numbers of a JSON value by their shortest spelling.
// Integers keep theirs, since a float64 would make two of the large ones equal.
func shortNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			return v
		}
		if f, err := v.Float64(); err == nil {
			return json.Number(strconv.FormatFloat(f, 'f', -1, 64))
		}
	case []any:
		for i := range v {
			v[i] = shortNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = shortNumbers(v[name])
		}
	}
	return value
}
