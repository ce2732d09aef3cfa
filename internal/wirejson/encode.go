package wirejson

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"unicode/utf8"
)

// Append appends v's JSON as encoding/json encodes it, without the escapes that only HTML needs. v must be
// of a type that can be encoded. If its value cannot be encoded, Append returns dst unchanged.
func Append(dst []byte, v any) []byte {
	out := bytes.NewBuffer(dst)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return dst
	}
	return out.Bytes()[:out.Len()-1] // drops the newline that the encoder adds
}

// OrNull returns a pointer to v, or nil if v is zero, so that an empty text or a 0 is encoded as null.
func OrNull[V comparable](v V) *V {
	if v == *new(V) {
		return nil
	}
	return &v
}

// Truncate returns text or, if that has more bytes than most, its beginning with an ellipsis.
func Truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Quote returns s as a JSON string without the escapes that only HTML needs.
func Quote(s string) string { return string(Append(make([]byte, 0, len(s)+len("\"\"\n")), s)) }

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. The result is valid JSON and valid UTF-8 for any s:
// bytes that are not UTF-8 become U+FFFD. U+2028 and U+2029 are escaped, since old JavaScript reads
// them as line breaks. < > and & are not escaped, since the result never becomes a part of HTML.
func AppendString[T text](dst []byte, s T) []byte {
	b := View(s)
	dst = append(dst, '"')
	for start, i := 0, 0; ; {
		if i < len(b) && b[i] < utf8.RuneSelf {
			i = PlainEnd(b, i)
		}
		if i == len(b) {
			return append(append(dst, b[start:]...), '"')
		}
		r, size := utf8.DecodeRune(b[i:])
		if r >= utf8.RuneSelf && r != '\u2028' && r != '\u2029' && (r != utf8.RuneError || size > 1) {
			i += size
			continue
		}
		dst = appendEscaped(append(dst, b[start:i]...), r)
		i += size
		start = i
	}
}

// appendEscaped appends a character that must not stand in a JSON string as it is.
func appendEscaped(dst []byte, r rune) []byte {
	switch r {
	case utf8.RuneError:
		return append(dst, "\ufffd"...)
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', hexDigits[r>>12], hexDigits[r>>8&0xf], hexDigits[r>>4&0xf], hexDigits[r&0xf])
}

// Buffer is reusable memory for output, which a stream holds only while it writes: of thousands of streams,
// nearly all wait, and need no memory. The zero value is ready. A Buffer must not be copied.
type Buffer struct {
	memory *[]byte // nil: no memory is borrowed
}

// maxPooled bounds the memory that Release gives back to the pool, in bytes. Few events need more.
const maxPooled = 16 << 10

var memoryPool = sync.Pool{New: func() any { return new(make([]byte, 0, 1<<10)) }}

// Take returns the memory as an empty slice. If b has no memory, Take borrows some from the pool.
func (b *Buffer) Take() []byte {
	if b.memory == nil {
		b.memory = memoryPool.Get().(*[]byte)
	}
	return (*b.memory)[:0]
}

// Keep makes the next [Buffer.Take] return p's memory. p is the result of the last Take, perhaps grown.
func (b *Buffer) Keep(p []byte) { *b.memory = p }

// Release gives small memory back to the pool. The result of Take must not be used any more.
func (b *Buffer) Release() {
	if b.memory != nil && cap(*b.memory) <= maxPooled {
		memoryPool.Put(b.memory)
	}
	b.memory = nil
}
