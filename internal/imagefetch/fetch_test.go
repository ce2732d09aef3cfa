package imagefetch

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"
)

// kinds are images of each type, by path.
var kinds = map[string]struct{ media, content string }{
	"/png":  {"image/png", png},
	"/jpeg": {"image/jpeg", "\xff\xd8\xff\xe0 jpeg"},
	"/gif":  {"image/gif", "GIF89a gif"},
	"/webp": {"image/webp", "RIFF\x04\x00\x00\x00WEBPVP8 "},
	"/one":  {"image/gif", "GIF89a"},
	"/512":  {"image/png", png + strings.Repeat("x", 512-len(png))},
	"/big":  {"image/jpeg", "\xff\xd8\xff\xc0\x00\x11\x08\x00\x01\x00\x01\x03\x01\x22\x00\x02\x11\x01\x03\x11\x01" + strings.Repeat("0123456789", 300_000)},
}

// TestFetch checks that images of every type arrive byte for byte over both
// versions of HTTP, whatever their Content-Type says.
func TestFetch(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Authorization", "Cookie", "Referer"} {
			if r.Header.Get(name) != "" {
				t.Errorf("the header %s was sent: %v", name, r.Header)
			}
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, kinds[r.URL.Path].content)
	}
	modern, _ := serve(t, handler)
	plain := httptest.NewTLSServer(http.HandlerFunc(handler))
	t.Cleanup(plain.Close)
	for version, server := range map[string]*httptest.Server{"HTTP/2": modern, "HTTP/1.1": plain} {
		f := fetcherFor(t, server)
		var urls []string
		for path := range kinds {
			urls = append(urls, server.URL+path+"?signature=x#part", server.URL+path+"?signature=x#part")
		}
		images, err := f.Fetch(testContext(t), urls, unbounded)
		if err != nil || len(images) != len(kinds) {
			t.Fatalf("%s: %d images, %v", version, len(images), err)
		}
		for path, want := range kinds {
			got, _ := strings.CutPrefix(images[server.URL+path+"?signature=x#part"], "data:"+want.media+";base64,")
			content, err := base64.StdEncoding.DecodeString(got)
			if err != nil || string(content) != want.content {
				t.Errorf("%s %s: %.60q, %v", version, path, got, err)
			}
		}
	}
}

// TestAnyReads: an image does not depend on how its body is read.
func TestAnyReads(t *testing.T) {
	f := New(Options{})
	for name, how := range map[string]func(io.Reader) io.Reader{"bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "with the end": iotest.DataErrReader} {
		for path, kind := range kinds {
			all := &allowance{bytes: int64(len(kind.content)), grow: unbounded}
			got, err := f.read(&http.Response{Body: io.NopCloser(how(strings.NewReader(kind.content))), ContentLength: -1}, all)
			if want := "data:" + kind.media + ";base64," + base64.StdEncoding.EncodeToString([]byte(kind.content)); err != nil || got != want || all.taken != all.bytes {
				t.Errorf("%s in %s: %d bytes, %v, %d of %d counted", path, name, len(got), err, all.taken, all.bytes)
			}
		}
	}
}

func TestNothingToFetch(t *testing.T) {
	f := New(Options{})
	defer f.Close()
	if images, err := f.Fetch(testContext(t), nil, unbounded); err != nil || len(images) != 0 {
		t.Error(images, err)
	}
}

// TestResponses checks the reason for each kind of bad response, including one that never ends.
func TestResponses(t *testing.T) {
	answers := map[string]struct {
		answer http.HandlerFunc
		want   reason
	}{
		"missing":   {http.NotFound, "its server answered 404 (Not Found)"},
		"failing":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, "its server answered 503 (Service Unavailable)"},
		"unknown":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(599) }, "its server answered 599 (an unknown status)"},
		"partial":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(206); _, _ = io.WriteString(w, png) }, "its server answered 206 (Partial Content)"},
		"unchanged": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, "its server answered 304 (Not Modified)"},
		"empty":     {func(http.ResponseWriter, *http.Request) {}, errEmpty},
		"html": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "image/png")
			_, _ = io.WriteString(w, "<html>an image</html>")
		}, errNoImage},
		"svg":     {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<svg/>") }, errNoImage},
		"gzipped": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "\x1f\x8b\x08gzip") }, errNoImage},
		"too large by its header": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "20971521")
			_, _ = io.WriteString(w, png)
		}, "it is larger than 20 MiB"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, png)
			for page := make([]byte, 64<<10); ; {
				if _, err := w.Write(page); err != nil {
					return
				}
			}
		}, "it is larger than 20 MiB"},
		"cut at once": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, png)
		}, errUnreachable},
		"cut later": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, png+strings.Repeat("x", 5000))
			panic(http.ErrAbortHandler)
		}, errUnreachable},
		"a long header": {func(w http.ResponseWriter, _ *http.Request) {
			for i := range 100 {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1000))
			}
			_, _ = io.WriteString(w, png)
		}, errUnreachable},
	}
	for name, c := range answers {
		t.Run(name, func(t *testing.T) {
			modern, f := serve(t, c.answer)
			refused(t, f, modern.URL, c.want)
			plain := httptest.NewUnstartedServer(c.answer)
			plain.Config.ErrorLog = quiet
			plain.StartTLS()
			t.Cleanup(plain.Close)
			refused(t, fetcherFor(t, plain), plain.URL, c.want)
		})
	}
}

// TestTotalBytes checks the limit for all images of a request together.
func TestTotalBytes(t *testing.T) {
	server, f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, png+strings.Repeat("x", 1000))
	})
	f.limits.totalBytes = 3000
	if _, err := f.Fetch(testContext(t), []string{server.URL + "/1", server.URL + "/2"}, unbounded); err != nil {
		t.Error(err)
	}
	_, err := f.Fetch(testContext(t), []string{server.URL + "/1", server.URL + "/2", server.URL + "/3"}, unbounded)
	if failure, ok := err.(*Failure); !ok || failure.Reason != "the images of the request are larger than 2.9 KiB together" {
		t.Error(err)
	}
}

// TestMemory checks that images take the memory of their data URLs, and end where there is none.
func TestMemory(t *testing.T) {
	content := png + strings.Repeat("x", 1000)
	server, f := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, content) })
	urls := []string{server.URL + "/1", server.URL + "/2"}
	taken, most := int64(0), int64(1<<20)
	grow := func(n int64) bool {
		if taken+n > most {
			return false
		}
		taken += n
		return true
	}
	images, err := f.Fetch(testContext(t), urls, grow)
	if size := int64(len(images[urls[0]]) + len(images[urls[1]])); err != nil || taken < 2*int64(len(content))*4/3 || taken > size+100 {
		t.Errorf("%d bytes of %d, %v", taken, size, err)
	}
	taken, most = 0, int64(len(content))
	if images, err := f.Fetch(testContext(t), urls, grow); err != ErrNoMemory || images != nil {
		t.Errorf("%d images, %v", len(images), err)
	}
}

// TestAtOnce checks that four images are fetched at once and never more.
func TestAtOnce(t *testing.T) {
	var now atomic.Int32
	var once sync.Once
	enough := make(chan struct{})
	server, f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		defer now.Add(-1)
		switch n := now.Add(1); {
		case n > 4:
			t.Error("more than four images are fetched at once")
		case n == 4:
			once.Do(func() { time.AfterFunc(100*time.Millisecond, func() { close(enough) }) })
		}
		select {
		case <-enough: // a fifth would have come by now
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, png)
	})
	var urls []string
	for i := range 12 {
		urls = append(urls, fmt.Sprint(server.URL, "/", i))
	}
	if _, err := f.Fetch(testContext(t), urls, unbounded); err != nil {
		t.Error(err)
	}
}

// TestTimes checks the time limits, before and after the header.
func TestTimes(t *testing.T) {
	server, f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			_, _ = io.WriteString(w, png+strings.Repeat("x", 1000))
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	})
	const short = 50 * time.Millisecond
	f.limits.imageTime = short
	refused(t, f, server.URL+"/header", reasonf("it took longer than %s", short))
	refused(t, f, server.URL+"/body", reasonf("it took longer than %s", short))
	f.limits = standardLimits
	f.limits.totalTime = short
	refused(t, f, server.URL+"/header", reasonf("the images of the request took longer than %s together", short))
	refused(t, f, server.URL+"/body", reasonf("the images of the request took longer than %s together", short))
}

// TestFirstFailureEnds checks that a failure cancels the other images.
func TestFirstFailureEnds(t *testing.T) {
	waiting := make(chan struct{})
	server, f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hangs" {
			close(waiting)
			<-r.Context().Done()
			return
		}
		<-waiting
		http.NotFound(w, r)
	})
	_, err := f.Fetch(testContext(t), []string{server.URL + "/hangs", server.URL + "/missing"}, unbounded)
	if failure, ok := err.(*Failure); !ok || failure.URL != server.URL+"/missing" || failure.Reason != "its server answered 404 (Not Found)" {
		t.Error(err)
	}
}

// TestClientLeaves checks that the end of ctx is not a failure of an image.
func TestClientLeaves(t *testing.T) {
	ctx, leave := context.WithCancel(testContext(t))
	server, f := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		leave()
		<-r.Context().Done()
	})
	if images, err := f.Fetch(ctx, []string{server.URL}, unbounded); err != context.Canceled || images != nil {
		t.Error(images, err)
	}
}

// TestCloseWithin checks that Close does not interrupt a Fetch in progress.
func TestCloseWithin(t *testing.T) {
	var f *Fetcher
	server, f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		f.Close()
		_, _ = io.WriteString(w, png)
	})
	if images, err := f.Fetch(testContext(t), []string{server.URL}, unbounded); err != nil || len(images) != 1 {
		t.Error(images, err)
	}
}
