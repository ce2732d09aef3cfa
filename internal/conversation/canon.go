package conversation

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"strings"
	"sync"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Hash identifies the history of a conversation up to some message.
type Hash [sha256.Size]byte

// digest hashes a sequence of fields. It hashes the length of each field, and then the field
// itself, so that different sequences have different hashes.
type digest struct {
	hash.Hash
	scratch *Hash // a buffer, reused to save allocations
}

var digests = sync.Pool{New: func() any { return &digest{sha256.New(), new(Hash)} }}

func newDigest() *digest {
	d := digests.Get().(*digest)
	d.Reset()
	return d
}

func (d *digest) field(text string) { d.bytes(wirejson.View(text)) }

func (d *digest) bytes(text []byte) {
	d.number(len(text))
	_, _ = d.Write(text) // writing to a hash never fails
}

func (d *digest) number(n int) {
	_, _ = d.Write(binary.LittleEndian.AppendUint64(d.scratch[:0], uint64(n)))
}

func (d *digest) hash(h Hash) {
	*d.scratch = h
	_, _ = d.Write(d.scratch[:])
}

func (d *digest) current() Hash {
	d.Sum(d.scratch[:0])
	return *d.scratch
}

// sum returns the hash and puts the digest back into the pool. The digest must not be used after that.
func (d *digest) sum() Hash {
	h := d.current()
	digests.Put(d)
	return h
}

// canonicalArguments returns a call's arguments, a JSON value, in canonical form: members sorted by
// name, and numbers as [shortNumbers] leaves them. An empty text becomes an empty object, which
// Codex gets in this case, too. Other text that is not JSON stays as it is.
func canonicalArguments(text string) string {
	if text == "" {
		return "{}"
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return text
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return text
	}
	canonical, err := json.Marshal(shortNumbers(value))
	if err != nil {
		return text
	}
	return string(canonical)
}

// shortNumbers converts numbers with a fraction or an exponent to float64, so that equal numbers are
// spelled the same. Integers stay: two different large integers may be equal as float64 values.
func shortNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			return v
		}
		if f, err := v.Float64(); err == nil {
			return f
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
