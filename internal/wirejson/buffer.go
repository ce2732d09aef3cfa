package wirejson

import "sync"

// Buffer is reusable memory for output. A stream holds the memory only while it writes, and most
// streams wait most of the time. So thousands of streams need only the memory of the few that
// write. The zero value is ready to use. A Buffer must not be copied.
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

// Keep makes the next [Buffer.Take] return the memory of p. p must be the result of the last Take,
// perhaps grown by append.
func (b *Buffer) Keep(p []byte) { *b.memory = p }

// Release gives the memory back to the pool, unless it is too large. The result of Take must not be
// used any more.
func (b *Buffer) Release() {
	if b.memory != nil && cap(*b.memory) <= maxPooled {
		memoryPool.Put(b.memory)
	}
	b.memory = nil
}
