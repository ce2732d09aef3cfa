package reqbody

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
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
