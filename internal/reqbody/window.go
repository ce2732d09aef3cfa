package reqbody

import (
	"bufio"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-codex/caddy-codex/internal/claims"
)

const (
	// maxWindow bounds how many decoded bytes the zstd decoder keeps to refer back to. RFC 8878
	// recommends this bound.
	maxWindow = 8 << 20
	// maxWindowExcess is how much larger than the window its buffer is, in bytes, but the buffer is
	// never more than twice as large as the window.
	maxWindowExcess = 1 << 20
	// zstdMemory is how much memory a zstd decoder takes besides that buffer, in bytes: three parts
	// of a block, which may have 128 KiB, and tables.
	zstdMemory = 512 << 10
	// gzipMemory is how much memory a gzip decoder takes, in bytes. Its window has 32 KiB.
	gzipMemory = 64 << 10
)

// frameReader reads a body in zstd part by part: the head of a frame, or a block. The body may have
// several frames. Before frameReader passes on the head of a frame, it claims the memory for the
// window that the head declares, since the decoder then allocates it.
type frameReader struct {
	body    *bufio.Reader
	claim   *claims.Claim
	claimed int64 // bytes that are claimed for the decoder
	left    int64 // bytes of the present part that are still to be passed on
	inFrame bool  // the next part is a block
	hasSum  bool  // the frame ends with a checksum
}

// Read returns bytes of one part. The error is ErrNoMemory if the window cannot be claimed.
func (f *frameReader) Read(buf []byte) (int, error) {
	if f.left == 0 {
		next := f.nextFrame
		if f.inFrame {
			next = f.nextBlock
		}
		if err := next(); err != nil {
			return 0, err
		}
	}
	n, err := f.body.Read(buf[:min(int64(len(buf)), f.left)])
	f.left -= int64(n)
	return n, err
}

// nextFrame makes the head of a frame the next part. It leaves the errors of an invalid head, or of
// a window above maxWindow, to the decoder.
func (f *frameReader) nextFrame() error {
	start, err := f.body.Peek(zstd.HeaderMaxSize) // the frame, and so the body, may be shorter
	if len(start) == 0 {
		return err
	}
	var head zstd.Header
	if head.Decode(start) != nil {
		f.left = int64(len(start))
		return nil
	}
	f.left, f.inFrame, f.hasSum = int64(head.HeaderSize)+int64(head.SkippableSize), !head.Skippable, head.HasCheckSum
	window := head.WindowSize
	if head.SingleSegment {
		window = head.FrameContentSize
	}
	if head.Skippable || window > maxWindow {
		return nil
	}
	return f.claimDecoder(zstdMemory + int64(window+min(window, maxWindowExcess)))
}

// nextBlock makes a block the next part, and with it the checksum if the block is the last one of
// its frame.
func (f *frameReader) nextBlock() error {
	head, err := f.body.Peek(3)
	if len(head) < 3 {
		return err
	}
	bits := int64(head[0]) | int64(head[1])<<8 | int64(head[2])<<16
	f.left = 3 + bits>>3 // the head has the size of the block, its type in two bits, and the mark of the last one
	if bits>>1&3 == 1 {
		f.left = 3 + 1 // one byte that is repeated
	}
	if f.inFrame = bits&1 == 0; !f.inFrame && f.hasSum {
		f.left += 4
	}
	return nil
}

// claimDecoder claims memory for the decoder, which needs this many bytes in all.
func (f *frameReader) claimDecoder(bytes int64) error {
	if bytes > f.claimed {
		if !f.claim.Grow(bytes - f.claimed) {
			return ErrNoMemory
		}
		f.claimed = bytes
	}
	return nil
}
