package reqbody

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func zipped(t testing.TB, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	must.OK(t, w.Close())
	return out.Bytes()
}

func zstandard(t testing.TB, text []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	must.OK(t, err)
	return w.EncodeAll(text, nil)
}

// TestEncodings reads bodies in each encoding, whole, cut and corrupt, and such as are
// larger than they look.
func TestEncodings(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789"), 50_000)
	bomb := make([]byte, 8<<20)
	for name, c := range map[string]struct {
		encoding string
		body     []byte
		want     []byte // nil: an error
		err      func(error) bool
	}{
		"none":             {"", text, text, nil},
		"identity":         {"identity", text, text, nil},
		"gzip":             {"gzip", zipped(t, text), text, nil},
		"gzip, of old":     {"X-GZIP", zipped(t, text), text, nil},
		"zstd":             {"zstd", zstandard(t, text), text, nil},
		"two members":      {"gzip", append(zipped(t, text), zipped(t, text)...), append(bytes.Clone(text), text...), nil},
		"nothing in gzip":  {"gzip", zipped(t, nil), []byte{}, nil},
		"as large as may":  {"gzip", zipped(t, bomb[:4<<20]), bomb[:4<<20], nil},
		"too large":        {"gzip", zipped(t, bomb[:4<<20+1]), nil, isTooLarge},
		"a bomb":           {"gzip", zipped(t, bomb), nil, isTooLarge},
		"a bomb in zstd":   {"zstd", zstandard(t, bomb), nil, isTooLarge},
		"deflate":          {"deflate", text, nil, isEncoding},
		"two encodings":    {"gzip, zstd", text, nil, isEncoding},
		"in two headers":   {"gzip\ngzip", zipped(t, zipped(t, text)), nil, isEncoding},
		"one and none":     {"identity\ngzip", zipped(t, text), nil, isEncoding},
		"no gzip":          {"gzip", text, nil, isCorrupt},
		"no zstd":          {"zstd", text, nil, isCorrupt},
		"no body":          {"gzip", nil, nil, isCorrupt},
		"a cut gzip":       {"gzip", zipped(t, text)[:500], nil, isCorrupt},
		"a cut zstd":       {"zstd", zstandard(t, text)[:20], nil, isCorrupt},
		"more behind gzip": {"gzip", append(zipped(t, text), "more"...), nil, isCorrupt},
	} {
		p := NewPool(64<<20, 4<<20, claims.NewCrowd(nil))
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(c.body))
		r.Header["Content-Encoding"] = strings.Split(c.encoding, "\n")
		claim := p.Claim("a")
		original := []byte{}
		got, err := p.Read(t.Context(), httptest.NewRecorder(), r, claim, &original)
		kept := int64(len(got))
		if len(c.encoding) > 0 && c.encoding != "identity" {
			kept += int64(len(c.body))
		}
		if c.want != nil && (!bytes.Equal(original, c.body) || claim.Size() < kept || claim.Size() > kept+2*chunkSize) {
			t.Errorf("%s: %d bytes came, %d are claimed for %d", name, len(original), claim.Size(), kept)
		}
		claim.Release()
		r.Body = io.NopCloser(bytes.NewReader(c.body))
		if again, errAgain := p.Read(t.Context(), httptest.NewRecorder(), r, claim, new([]byte)); !bytes.Equal(got, again) || (err == nil) != (errAgain == nil) {
			t.Errorf("%s: without the original: %d bytes, %v", name, len(again), errAgain)
		}
		switch {
		case c.want != nil && (err != nil || !bytes.Equal(got, c.want)):
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		case c.want == nil && (err == nil || !c.err(err)):
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if claim.Release(); p.Held() != 0 {
			t.Errorf("%s: %d bytes are left", name, p.Held())
		}
	}
}

func isTooLarge(err error) bool { return errors.As(err, new(*http.MaxBytesError)) }
func isEncoding(err error) bool { return errors.Is(err, ErrEncoding) }
func isCorrupt(err error) bool  { return errors.As(err, new(*CorruptError)) }

// FuzzEncodings reads anything as each encoding: the same in one piece and in single bytes,
// and what other decoders make of it, or an error.
func FuzzEncodings(f *testing.F) {
	f.Add(true, zipped(f, []byte("a body")))
	f.Add(true, append(zipped(f, []byte("a")), zipped(f, []byte(" body"))...))
	f.Add(true, zipped(f, make([]byte, 1<<20+1)))
	f.Add(false, zstandard(f, []byte("a body")))
	whole, err := zstd.NewReader(nil, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(4<<20))
	must.OK(f, err)
	f.Fuzz(func(t *testing.T, isGzip bool, body []byte) {
		got, err := readEncoded(t, isGzip, bytes.NewReader(body))
		cut, errCut := readEncoded(t, isGzip, iotest.OneByteReader(bytes.NewReader(body)))
		if (err == nil) != (errCut == nil) || err == nil && !bytes.Equal(got, cut) {
			t.Fatalf("%q, %v; in single bytes %q, %v", got, err, cut, errCut)
		}
		var want []byte
		var errWant error
		if isGzip {
			want, errWant = unzipped(body)
		} else {
			want, errWant = whole.DecodeAll(body, nil)
		}
		if len(want) > 1<<20 || isTooLarge(err) || !isGzip && errWant != nil {
			return // DecodeAll and a stream have other limits
		}
		if (err == nil) != (errWant == nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%q, %v; want %q, %v", got, err, want, errWant)
		}
	})
}

// readEncoded reads a body of at most a MiB, and checks that no memory stays claimed.
func readEncoded(t *testing.T, isGzip bool, body io.Reader) ([]byte, error) {
	p := NewPool(64<<20, 1<<20, claims.NewCrowd(nil)) // with room for the largest window
	r := httptest.NewRequest(http.MethodPost, "/", body)
	r.Header.Set("Content-Encoding", map[bool]string{true: "gzip", false: "zstd"}[isGzip])
	claim := p.Claim("a")
	got, err := p.Read(t.Context(), httptest.NewRecorder(), r, claim, new([]byte))
	if err == nil && len(got) > 1<<20 {
		t.Errorf("%d bytes", len(got))
	}
	got = bytes.Clone(got)
	if claim.Release(); p.Held() != 0 {
		t.Errorf("%d bytes are left", p.Held())
	}
	return got, err
}

// unzipped returns what the standard library reads, at most somewhat more than a MiB.
func unzipped(body []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, 1<<20+1))
}

// frame returns a frame that declares a window of 1 KiB times two to the power of log, with one block:
// "x" that many times.
func frame(log, times int) []byte {
	f := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, byte(log << 3)}
	return append(append(f, head(times, repeated, true)...), 'x')
}

// The types of blocks: its bytes, or one byte that is repeated.
const (
	raw      = 0
	repeated = 1
)

func head(size, kind int, last bool) []byte {
	bits := uint32(size<<3 | kind<<1)
	if last {
		bits++
	}
	return binary.LittleEndian.AppendUint32(nil, bits)[:3]
}

// emptyFrame says that it has no content.
var emptyFrame = []byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0}

// skipped returns a frame that decoders skip.
func skipped(size int) []byte {
	return append(binary.LittleEndian.AppendUint32([]byte{0x5a, 0x2a, 0x4d, 0x18}, uint32(size)), make([]byte, size)...)
}

// withSum returns a frame with a checksum, made of blocks by an encoder.
func withSum(t *testing.T, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithEncoderCRC(true), zstd.WithWindowSize(32<<10))
	must.OK(t, err)
	for part := range slices.Chunk(text, 50_000) {
		if _, err := w.Write(part); err != nil || w.Flush() != nil {
			t.Fatal(err)
		}
	}
	must.OK(t, w.Close())
	return out.Bytes()
}

// TestWindows checks that the window of a body is claimed while the body is read, that the decoder
// allocates no more than that, that no later frame has a larger one, and that only the body stays
// claimed.
func TestWindows(t *testing.T) {
	text := []byte(strings.Repeat("0123456789", 20_000))
	for name, c := range map[string]struct {
		body   []byte
		want   string
		window int64
	}{
		"small":           {frame(0, 10), strings.Repeat("x", 10), 1 << 10},
		"large":           {frame(13, 10), strings.Repeat("x", 10), 8 << 20},
		"second is large": {append(frame(0, 10), frame(13, 20)...), "corrupt", 1 << 10},
		"first":           {append(frame(13, 10), frame(0, 20)...), strings.Repeat("x", 30), 8 << 20},
		"many":            {slices.Concat(frame(5, 1), frame(0, 1), frame(3, 1), frame(5, 1), frame(1, 1)), "xxxxx", 32 << 10},
		"behind skipped":  {slices.Concat(skipped(0), skipped(5000), frame(13, 10), skipped(100)), strings.Repeat("x", 10), 8 << 20},
		"behind empty":    {slices.Concat(emptyFrame, frame(13, 10)), strings.Repeat("x", 10), 8 << 20},
		"no window":       {zstandard(t, text), string(text), int64(len(text))},
		"checksums":       {slices.Concat(withSum(t, text), frame(0, 1), withSum(t, text)), string(text) + "x" + string(text), 32 << 10},
		"nothing":         {nil, "", 8 << 20},
		"skipped alone":   {skipped(10), "", 8 << 20},
		"above the bound": {frame(14, 10), "corrupt", 8 << 20},
		"cut":             {frame(13, 10)[:8], "corrupt", 8 << 20},
		"cut in the head": {append(frame(0, 1), 0x28, 0xb5), "corrupt", 1 << 10},
	} {
		for _, cut := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader} {
			p := NewPool(64<<20, 4<<20, claims.NewCrowd(nil))
			claim := p.Claim("a")
			d := &decoder{encoding: "zstd", body: &encodedBody{Reader: cut(bytes.NewReader(c.body))}, claim: claim}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = io.Copy(io.Discard, d)
			runtime.ReadMemStats(&after)
			most, allocated := claim.Size(), int64(after.TotalAlloc-before.TotalAlloc)
			if d.close(); most < c.window || most > zstdMemory+2*c.window {
				t.Errorf("%s: %d bytes are claimed for a window of %d", name, most, c.window)
			}
			if claim.Release(); name != "many" && allocated > most+128<<10 { // which allocates each window
				t.Errorf("%s: %d bytes are allocated, %d claimed", name, allocated, most)
			}
			r := httptest.NewRequest(http.MethodPost, "/", cut(bytes.NewReader(c.body)))
			r.Header.Set("Content-Encoding", "zstd")
			switch got, err := p.Read(t.Context(), httptest.NewRecorder(), r, claim, new([]byte)); {
			case c.want == "corrupt" && !isCorrupt(err), c.want != "corrupt" && (err != nil || string(got) != c.want):
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			case err == nil && claim.Size() != int64(cap(got)):
				t.Errorf("%s: %d bytes stay claimed for a body of %d", name, claim.Size(), cap(got))
			}
		}
	}
}

// TestWindowsTogether checks that all users' windows together, and those of one user, have a limit.
func TestWindowsTogether(t *testing.T) {
	crowd := claims.NewCrowd(func() bool { return true })
	p := NewPool(100<<20, 10<<20, crowd)
	var open []*io.PipeWriter
	ends := make(chan error, 100)
	read := func(user string, body []byte) *io.PipeWriter {
		out, in := io.Pipe()
		r := httptest.NewRequest(http.MethodPost, "/", out)
		r.Header.Set("Content-Encoding", "zstd")
		crowd.Note(user)
		go func() {
			claim := p.Claim(user)
			_, err := p.Read(t.Context(), httptest.NewRecorder(), r, claim, new([]byte))
			out.CloseWithError(err)
			claim.Release()
			ends <- err
		}()
		_, _ = in.Write(body)
		return in
	}
	unfinished := slices.Concat(frame(13, 10)[:6], head(20, raw, false), make([]byte, 20))
	for range 20 {
		open = append(open, read("a", unfinished))
	}
	refused := 0
	for range 20 - 4 { // of 90 MiB, a user may have 45, and a window needs 9.5
		if err := <-ends; errors.Is(err, ErrNoMemory) {
			refused++
		}
	}
	if held := p.Held(); refused != 16 || held > 45<<20 || held < 4*8<<20 {
		t.Errorf("%d windows are refused, and %d bytes held", refused, held)
	}
	read("b", frame(13, 10)).Close()
	if err := <-ends; err != nil {
		t.Errorf("another user: %v", err)
	}
	for _, in := range open {
		in.Close()
	}
	for range 4 {
		<-ends
	}
	if p.Held() != 0 {
		t.Errorf("%d bytes are left", p.Held())
	}
}
