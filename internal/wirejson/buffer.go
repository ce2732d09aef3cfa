package wirejson

import "sync"

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
