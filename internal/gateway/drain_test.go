package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// exitingGateway is a gateway whose server exits when exit is called.
func exitingGateway(t *testing.T, opts Options) (g *Gateway, exit context.CancelFunc) {
	opts.Exit, exit = context.WithCancel(context.Background())
	t.Cleanup(exit)
	opts.User = func(r *http.Request) string { return r.Header.Get("User") }
	if opts.Observer == nil {
		opts.Observer = new(witness)
	}
	return New(nil, opts), exit
}

// Turns that run have the drain timeout; what precedes them ends at once.
func TestExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, exit := exitingGateway(t, Options{MaxConcurrent: 1, DrainTimeout: 7 * time.Second})
		begin := func() *exchange { return g.newExchange(httptest.NewRecorder(), requestOf("a")) }
		begin().close() // the watch of the exit begins again
		running, coming, ended := begin(), begin(), begin()
		defer running.close()
		defer coming.close()
		running.exit.accepted.Store(true)
		ended.exit.accepted.Store(true)
		ended.close()
		time.Sleep(time.Hour)
		if running.ctx.Err() != nil || coming.ctx.Err() != nil {
			t.Error("a request ends without an exit")
		}
		start := time.Now()
		exit()
		<-coming.ctx.Done()
		if took := time.Since(start); took != 0 {
			t.Errorf("what precedes a turn ends after %s", took)
		}
		<-running.ctx.Done()
		if took := time.Since(start); took != 7*time.Second {
			t.Errorf("a turn ends after %s", took)
		}
		for _, x := range []*exchange{running, coming} {
			if err := context.Cause(x.ctx); !errors.Is(err, turn.ErrShutdown) {
				t.Error(err)
			}
		}
		if err := context.Cause(ended.ctx); errors.Is(err, turn.ErrShutdown) {
			t.Error("a request that was over:", err)
		}
		late := begin()
		defer late.close()
		<-late.ctx.Done()
		if err := context.Cause(late.ctx); !errors.Is(err, turn.ErrShutdown) {
			t.Error("a request that came later:", err)
		}
		if len(g.drainer.watches) > 0 {
			t.Errorf("%d requests are kept", len(g.drainer.watches))
		}
	})
}

// A request that waits for its turn when the server begins to exit is told that.
func TestWaitingAtExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, exit := exitingGateway(t, Options{MaxBody: 1 << 10, MaxBodyMemory: 4 << 10, MaxConcurrent: 1, MaxQueue: 1, QueueWait: time.Hour})
		leave, apiErr := admitTurns(t.Context(), g, "", 1)
		if apiErr != nil {
			t.Fatal(apiErr)
		}
		defer leave()
		time.AfterFunc(time.Second, exit)
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(conversing(userMessage)))
		_, apiErr = g.acceptAt("/v1/chat/completions", g.newExchange(httptest.NewRecorder(), r))
		if apiErr == nil || apiErr.Status != http.StatusServiceUnavailable || apiErr.Code != "server_shutting_down" || apiErr.RetryAfter == 0 {
			t.Errorf("%+v", apiErr)
		}
	})
}

// readSignal is a body that signals its first read.
type readSignal struct {
	io.ReadCloser
	once    sync.Once
	reading chan struct{}
}

func (s *readSignal) Read(p []byte) (int, error) {
	s.once.Do(func() { close(s.reading) })
	return s.ReadCloser.Read(p)
}

// A client that sends its body slowly does not hold the exit up, and is told.
func TestSlowBodyAtExit(t *testing.T) {
	for name, serve := range map[string]func(*Gateway, http.ResponseWriter, *http.Request){
		"a turn": func(g *Gateway, w http.ResponseWriter, r *http.Request) {
			_, apiErr := g.acceptAt("/v1/chat/completions", g.newExchange(w, r))
			g.refuse(w, r, apiErr)
		},
		"a count":        (*Gateway).InputTokens,
		"a conversation": (*Gateway).CreateConversation,
	} {
		t.Run(name, func(t *testing.T) { testSlowBodyAtExit(t, serve) })
	}
}

func testSlowBodyAtExit(t *testing.T, serve func(*Gateway, http.ResponseWriter, *http.Request)) {
	g, exit := exitingGateway(t, Options{
		MaxBody: 100, MaxBodyMemory: 1 << 20, MaxConcurrent: 1, Logger: discard(), Responses: memoryStore(1<<20, time.Hour),
	})
	reading := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = &readSignal{ReadCloser: r.Body, reading: reading}
		serve(g, w, r)
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	must.OK(t, err)
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	<-reading
	exit()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must.OK(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "server_shutting_down") || response.Header.Get("Retry-After") == "" {
		t.Errorf("%v, %s %v %s", err, response.Status, response.Header, body)
	}
}
