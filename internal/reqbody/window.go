package reqbody

import (
	"bufio"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-codex/caddy-codex/internal/claims"
)

const (
	// maxWindow bounds the decoded bytes to which zstd may refer back, as RFC 8878 recommends.
	maxWindow = 8 << 20
	// A zstd decoder has a buffer. For a window of largeWindow bytes or more, the buffer is windowExcess
	// bytes larger than the window. For a smaller window, it is twice as large as the window.
	largeWindow, windowExcess = 2 << 20, 1 << 20
	// zstdMemory is how many bytes of memory a zstd decoder takes besides the buffer: for tables, and for
	// three parts of a block of up to 128 KiB.
	zstdMemory = 512 << 10
	// gzipMemory is how much memory a gzip decoder takes, in bytes. Its window has 32 KiB.
	gzipMemory = 64 << 10
)

// newZstdDecoder returns a decoder for a body, and claims the decoder's memory. The decoder allocates the
// window that the head of a frame declares. No later frame may have a larger window than the first
// frame. But if the first frame has no data, windows may have maxWindow bytes. The error is ErrNoMemory, or
// an error of the decoder.
func newZstdDecoder(encoded io.Reader, claim *claims.Claim) (*zstd.Decoder, error) {
	body := bufio.NewReader(encoded)
	start, _ := body.Peek(zstd.HeaderMaxSize) // the error is ignored: the decoder gets it, too
	window := uint64(maxWindow)
	var head zstd.Header
	known := head.Decode(start) == nil && !head.Skippable
	if known && (!head.HasFCS || head.FrameContentSize > 0) {
		if window = head.WindowSize; head.SingleSegment { // such a frame declares only the size of its content
			window = head.FrameContentSize
		}
		window = min(max(window, zstd.MinWindowSize), maxWindow)
	}
	excess := window
	if window >= largeWindow {
		excess = windowExcess
	}
	if !claim.Grow(zstdMemory + int64(window+excess)) {
		return nil, ErrNoMemory
	}
	return zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderLowmem(true))
}
