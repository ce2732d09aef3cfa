package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// storm is the load of TestReloadStorm.
type storm struct {
	site    *e2e.Site
	ctx     context.Context
	http    *http.Client // a new connection for each request
	clients sync.WaitGroup
	over    atomic.Bool // the clients must stop
	end     func()      // stops the clients and waits for them

	number atomic.Int64 // number of the last stream
	ended  atomic.Int64 // complete streams
	opened atomic.Int64 // connections
	reset  atomic.Int64 // connections reset by the kernel
	closed atomic.Int64 // connections closed by net/http

	seen map[string]bool // every process so far, from children
}

func newStorm(s *e2e.Site) *storm {
	ctx, cancel := context.WithTimeout(context.Background(), stormTime)
	st := &storm{
		site: s,
		ctx:  ctx,
		http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		seen: make(map[string]bool),
	}
	st.end = sync.OnceFunc(func() {
		st.over.Store(true)
		st.clients.Wait()
		cancel()
	})
	return st
}

// reload loads a configuration and waits for its app-server.
func (st *storm) reload(caddyfile string) {
	t := st.site.T
	t.Helper()
	if err := e2e.LoadCaddyfile(caddyfile); err != nil {
		t.Fatal(err)
	}
	e2e.WaitFor(t, "the app-server", func() bool {
		response, err := st.http.Get(st.site.URL + "/readyz")
		if err != nil {
			return false // lost with the old listener
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
	for _, child := range e2e.Children() {
		st.seen[child] = true
	}
}

// checkConnections checks that no more connections were lost than Caddy loses without
// this module. The kernel resets connections that wait in a listener which a reload
// closes, and net/http closes those whose request comes at that moment. Clients retry
// both, since no request has begun. Plain Caddy lost 2.6 % of its connections over as
// many reloads; the bounds allow for a busy machine, where a reload takes as long as several
// new connections.
func (st *storm) checkConnections() {
	opened, reset, closed := st.opened.Load(), st.reset.Load(), st.closed.Load()
	st.site.T.Logf("of %d new connections %d were reset and %d closed", opened, reset, closed)
	if max(reset, closed) > max(opened/25, stormReloads/4) {
		st.site.T.Error("that is more than four of a hundred, and more than one for four reloads")
	}
}

// orphans returns the processes that run without a parent. One that has ended counts until
// its parent has waited for it.
func (st *storm) orphans() (left []string) {
	owned := e2e.Children()
	for child := range st.seen {
		pid, _, _ := strings.Cut(child, " ")
		if n, err := strconv.Atoi(pid); err != nil || e2e.Alive(n) && !slices.Contains(owned, child) {
			left = append(left, child)
		}
	}
	return left
}

// stream requests streams until the storm is over.
func (st *storm) stream() {
	for !st.over.Load() {
		text := strings.Repeat(fmt.Sprintf("stream %d ünï ", st.number.Add(1)), 10) + "."
		got, err := st.streamed(text)
		if err != nil || got != text {
			st.site.T.Errorf("a stream was lost or cut: %v\n got %q\nwant %q", err, got, text)
			return
		}
		st.ended.Add(1)
	}
}

// probe opens connections at an even pace. The streams have too few to measure how often
// they are reset.
func (st *storm) probe() {
	for ; !st.over.Load(); time.Sleep(20 * time.Millisecond) {
		response, err := st.ask(http.MethodGet, "/healthz", "")
		if err != nil || response.Body.Close() != nil || response.StatusCode != http.StatusOK {
			st.site.T.Error("a probe failed:", err)
			return
		}
	}
}

// streamed requests a slow text, and returns it if the stream is complete.
func (st *storm) streamed(text string) (string, error) {
	response, err := st.ask(http.MethodPost, "/v1/chat/completions", e2e.ChatBody("chunk=12; delay=800ms; verbatim:"+text, map[string]any{"stream": true}))
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %w", response.Status, body, err)
	}
	answer, err := apiclient.Read(body, apiclient.Chat, true, 1)
	if err == nil && (!answer.Ended || answer.Choices[0].Finish != "stop") {
		err = errors.New("it has no end")
	}
	return answer.Choices[0].Text, err
}

// ask sends a request on a new connection, and again if the connection is lost before
// the request has begun.
func (st *storm) ask(method, path, body string) (*http.Response, error) {
	for {
		request, err := http.NewRequestWithContext(st.ctx, method, st.site.URL+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		st.opened.Add(1)
		response, err := st.http.Do(request)
		switch {
		case errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
			st.reset.Add(1)
		case errors.Is(err, io.EOF):
			st.closed.Add(1)
		default:
			return response, err
		}
	}
}
