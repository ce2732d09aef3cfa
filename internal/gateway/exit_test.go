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
	return newGateway(noUpstream{}, opts), exit
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
		running.accepted.Store(true)
		ended.accepted.Store(true)
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
		if len(g.drainer.requests) > 0 {
			t.Errorf("%d requests are kept", len(g.drainer.requests))
		}
	})
}

// A request that waits for its turn when the server begins to exit is told that.
func TestWaitingAtExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, exit := exitingGateway(t, Options{MaxConcurrent: 1, MaxQueue: 1, QueueWait: time.Hour})
		leave, apiErr := admitTurns(t.Context(), g, "", 1)
		if apiErr != nil {
			t.Fatal(apiErr)
		}
		defer leave()
		time.AfterFunc(time.Second, exit)
		_, apiErr = g.acceptAt(chatPath, g.newExchange(httptest.NewRecorder(), posting(chatPath, conversing(userMessage))))
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
	for _, path := range []string{chatPath, "/v1/responses/input_tokens", "/v1/conversations"} {
		t.Run(path, func(t *testing.T) { testSlowBodyAtExit(t, path) })
	}
}

func testSlowBodyAtExit(t *testing.T, path string) {
	g, exit := exitingGateway(t, Options{MaxConcurrent: 1, Responses: memoryStore(1<<20, time.Hour)})
	reading := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = &readSignal{ReadCloser: r.Body, reading: reading}
		g.ServeHTTP(w, r)
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	must.OK(t, err)
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{", path); err != nil {
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
