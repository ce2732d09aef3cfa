package marathon

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
)

// Front passes requests on to a gateway, and keeps what that refuses.
type Front struct {
	*httptest.Server
	to atomic.Pointer[url.URL]

	mu       sync.Mutex
	refusals []string
}

// NewFront starts a Front before the gateway at a URL. Close it.
func NewFront(gateway string) (*Front, error) {
	f := new(Front)
	if err := f.Switch(gateway); err != nil {
		return nil, err
	}
	f.Server = httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval:  -1,
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(f.to.Load()) },
		ModifyResponse: f.judge,
	})
	return f, nil
}

// Switch passes later requests on to another gateway.
func (f *Front) Switch(gateway string) error {
	to, err := url.Parse(gateway)
	if err == nil {
		f.to.Store(to)
	}
	return err
}

// Refusals returns what was refused so far, and forgets it.
func (f *Front) Refusals() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	refusals := f.refusals
	f.refusals = nil
	return slices.Clip(refusals)
}

// judge keeps a refusal. A GET may be for something that this gateway does not have.
func (f *Front) judge(r *http.Response) error {
	const kept = 1000
	if r.StatusCode < http.StatusBadRequest || r.Request.Method != http.MethodPost {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusals = append(f.refusals, fmt.Sprintf("%s is answered with %d %.*s", r.Request.URL.Path, r.StatusCode, kept, body))
	return err
}
