// Package scratch lends memory for what is being written. A stream waits most of the time,
// so that thousands of them share the buffers of the few that write.
package scratch

import "sync"

// Buffer is empty memory that grows with what is appended. It must not be copied. The zero
// value is ready to use.
type Buffer struct{ lent *[]byte }

// maxKept bounds the memory that is lent again, in bytes. Few events are larger.
const maxKept = 16 << 10

var free = sync.Pool{New: func() any { return new(make([]byte, 0, 1<<10)) }}

// Take returns the memory, empty.
func (b *Buffer) Take() []byte {
	if b.lent == nil {
		b.lent = free.Get().(*[]byte)
	}
	return (*b.lent)[:0]
}

// Keep makes the next [Buffer.Take] return the memory of p, which may have grown out of
// what the last one has returned.
func (b *Buffer) Keep(p []byte) { *b.lent = p }

// Release gives the memory back. What was taken must not be used any more.
func (b *Buffer) Release() {
	if b.lent != nil && cap(*b.lent) <= maxKept {
		free.Put(b.lent)
	}
	b.lent = nil
}
