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
	// The decoder's buffer is as much larger than a window of at least largeWindow, in bytes. That of a
	// smaller window is twice as large as the window.
	largeWindow, windowExcess = 2 << 20, 1 << 20
	// zstdMemory is how much memory a zstd decoder takes besides that buffer, in bytes: three parts
	// of a block, which may have 128 KiB, and tables.
	zstdMemory = 512 << 10
	// gzipMemory is how much memory a gzip decoder takes, in bytes. Its window has 32 KiB.
	gzipMemory = 64 << 10
)

// newZstdDecoder returns a decoder for a body, and claims its memory: the decoder allocates the window
// that the head of a frame declares. The first frame says how large the windows of all frames may be,
// unless it is empty. The error is ErrNoMemory, or that of the decoder.
func newZstdDecoder(encoded io.Reader, claim *claims.Claim) (*zstd.Decoder, error) {
	body := bufio.NewReader(encoded)
	start, _ := body.Peek(zstd.HeaderMaxSize) // a short body, or an error, is the decoder's to tell
	window := uint64(maxWindow)
	var head zstd.Header
	known := head.Decode(start) == nil && !head.Skippable
	if known && (!head.HasFCS || head.FrameContentSize > 0) {
		if window = head.WindowSize; head.SingleSegment {
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
