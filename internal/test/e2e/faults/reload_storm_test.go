package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

const (
	stormReloads = 100
	stormStreams = 50
	stormTime    = 12 * time.Minute // bounds a test that takes one minute on two cores
	// stormHeap is the allowed growth of the heap, in bytes: records of the model and of the back
	// end take 1 MiB each, those of turns 256 KiB. A hundred configurations would take much more.
	stormHeap = 3 << 20
)

// TestReloadStorm: a hundred reloads, each fourth with another app_server, and fifty streams: every
// stream is complete, and afterwards processes, goroutines and memory are as before.
func TestReloadStorm(t *testing.T) {
	s := e2e.NewSite(t, "")
	// Both are read before codex's first turn, since its connections to the model have goroutines.
	e2e.WaitFor(t, "the app-server alone", func() bool { return len(e2e.Children()) == 1 }) // the plan's back end asks codex for its models
	before := takeReading(s)
	storm := newStorm(s)
	defer storm.end()
	for range stormStreams {
		storm.clients.Go(storm.stream)
	}
	storm.clients.Go(storm.probe)
	if _, err := s.Model.Wait(storm.ctx, func(now scriptedmodel.Stats) bool { return now.Requests >= stormStreams }); err != nil {
		t.Fatal(err)
	}
	for i := range stormReloads {
		storm.reload(stormfile(s, i/4, i))
	}
	storm.end()
	storm.reload(s.Caddyfile(""))
	streams := int(storm.ended.Load())
	e2e.WaitFor(t, "the model to count the streams", func() bool { return s.Model.Stats().Finished >= streams })
	if now := s.Model.Stats(); now.Finished != streams || now.ClosedEarly != 0 {
		t.Errorf("%d streams were read, and the model says: %+v", streams, now)
	}
	storm.checkConnections()
	e2e.WaitFor(t, "the old app-servers to end", func() bool {
		return len(e2e.Children()) == before.children && len(storm.orphans()) == 0
	})
	var after reading
	defer func() { t.Logf("%d streams; before %+v, after %+v", streams, before, after) }()
	e2e.WaitFor(t, "goroutines and memory to be back", func() bool {
		after = takeReading(s)
		return after.goroutines <= before.goroutines && after.heap <= before.heap+stormHeap
	})
}

// stormfile returns a configuration with two numbers that may change.
func stormfile(s *e2e.Site, appServer, other int) string {
	return s.Caddyfile(fmt.Sprintf("app_server %s app-server {\nhome %s\nenv GENERATION %d\n}\nidle_timeout %dm",
		e2e.CodexBinary, s.Home, appServer, 5+other))
}

// reading holds what must not grow.
type reading struct {
	children, goroutines int
	heap                 uint64 // bytes in use
}

func takeReading(s *e2e.Site) reading {
	http.DefaultClient.CloseIdleConnections()
	runtime.GC()
	runtime.GC() // frees what pools held
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return reading{len(e2e.Children()), runtime.NumGoroutine(), memory.HeapAlloc}
}

// TestReloads reloads a node, every other time with new connections to Redis, while clients store
// responses: none is refused, all can be read afterwards, and a response in the background goes on.
func TestReloads(t *testing.T) {
	server, keys := redisserver.Start(t), keyFile(t, map[string]string{"sk-free": ""})
	options := func(i int) string { return fmt.Sprintf("%sstore redis %s?pool_size=%d", keys, server.URL(""), 10+i/2) }
	s := e2e.NewSite(t, options(0))
	running := stored(s, "sk-free", "say:It begins; hang", e2e.Fields{"background": true})
	s.WaitOpen(1)
	client := &http.Client{Timeout: e2e.Deadline, Transport: &http.Transport{DisableKeepAlives: true}} // a reload closes connections
	over := make(chan struct{})
	var all sync.WaitGroup
	var mu sync.Mutex
	answered := make(map[string]string)
	for number := range 4 {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				text := fmt.Sprintf("kept-%d-%d.", number, i)
				request, err := http.NewRequest(http.MethodPost, s.URL+"/v1/responses", strings.NewReader(e2e.EncodeJSON(e2e.Asks("say:"+text, nil))))
				if err != nil {
					t.Error(err)
					return
				}
				request.Header = e2e.Bearer("sk-free")
				response, err := client.Do(request)
				if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
					continue // it was in the old listener when that closed, and has not begun
				}
				if err != nil {
					t.Error(err)
					return
				}
				var answer struct{ ID string }
				err = json.NewDecoder(response.Body).Decode(&answer)
				_ = response.Body.Close()
				if err != nil || response.StatusCode != http.StatusOK {
					t.Errorf("%s, %v", response.Status, err)
					return
				}
				mu.Lock()
				answered["/"+answer.ID] = text
				mu.Unlock()
			}
		})
	}
	for i := 1; i <= 10; i++ {
		s.Load(s.Caddyfile(options(i)))
		time.Sleep(100 * time.Millisecond) // for some requests
	}
	close(over)
	all.Wait()
	for path, text := range answered {
		if status, body := call(s, http.MethodGet, path, "sk-free", nil); status != http.StatusOK || !strings.Contains(body, text) {
			t.Errorf("%d %s", status, body)
		}
	}
	if len(answered) < 10 {
		t.Error("too few for a test: ", len(answered))
	}
	status, body := call(s, http.MethodGet, running, "sk-free", nil)
	if status != http.StatusOK || gjson.Get(body, "status").String() != "in_progress" {
		t.Errorf("%d %s", status, body)
	}
	status, body = call(s, http.MethodPost, running+"/cancel", "sk-free", nil)
	if status != http.StatusOK || gjson.Get(body, "status").String() != "cancelled" || !strings.Contains(body, "It begins") {
		t.Errorf("%d %s", status, body)
	}
}

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
	must.OK(t, e2e.LoadCaddyfile(caddyfile))
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

// checkConnections: no more connections are lost than without this module. The kernel resets those
// in a listener that a reload closes, and net/http closes those whose request comes just then.
// Clients retry both: no request has begun. Plain Caddy lost 2.6 % over as many reloads; the bounds
// allow for a busy machine, where a reload takes as long as several new connections.
func (st *storm) checkConnections() {
	opened, reset, closed := st.opened.Load(), st.reset.Load(), st.closed.Load()
	st.site.T.Logf("of %d new connections %d were reset and %d closed", opened, reset, closed)
	if max(reset, closed) > max(opened/25, stormReloads/4) {
		st.site.T.Error("that is more than four of a hundred, and more than one for four reloads")
	}
}

// orphans returns the processes without a parent, also ended ones that nobody has waited for.
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

// probe opens connections at an even pace, to measure resets, for which streams have too few.
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

// ask sends a request on a new connection, and again if that is lost before the request began.
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
