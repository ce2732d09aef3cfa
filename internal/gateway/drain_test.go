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
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/budget"
	"github.com/caddy-codex/caddy-codex/internal/openai"
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
		running, endRunning := g.untilDrained(httptest.NewRequest(http.MethodPost, "/", nil))
		defer endRunning()
		coming, endComing := g.untilExit(httptest.NewRequest(http.MethodPost, "/", nil))
		defer endComing()
		ended, end := g.untilDrained(httptest.NewRequest(http.MethodPost, "/", nil))
		end()
		time.Sleep(time.Hour)
		if running.Context().Err() != nil || coming.Context().Err() != nil {
			t.Error("a request ends without an exit")
		}
		start := time.Now()
		exit()
		<-coming.Context().Done()
		if took := time.Since(start); took != 0 {
			t.Errorf("what precedes a turn ends after %s", took)
		}
		<-running.Context().Done()
		if took := time.Since(start); took != 7*time.Second {
			t.Errorf("a turn ends after %s", took)
		}
		for _, r := range []*http.Request{running, coming} {
			if err := context.Cause(r.Context()); !errors.Is(err, turn.ErrShutdown) {
				t.Error(err)
			}
		}
		if err := context.Cause(ended.Context()); errors.Is(err, turn.ErrShutdown) {
			t.Error("a request that was over:", err)
		}
	})
}

// Whatever a request was doing before its turn, at the exit it hears of that.
func TestReceiveAtExit(t *testing.T) {
	for name, read := range map[string]reader{
		"reading": func(_ http.ResponseWriter, r *http.Request, _ *budget.Claim) (*request, *openai.Error) {
			<-r.Context().Done()
			return nil, openai.InvalidRequest("", "it was cut off")
		},
		"waiting": func(http.ResponseWriter, *http.Request, *budget.Claim) (*request, *openai.Error) {
			return &request{choices: 1}, nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, exit := exitingGateway(t, Options{MaxConcurrent: 1, MaxQueue: 1, QueueWait: time.Hour})
			leave, refusal := g.admit(httptest.NewRequest(http.MethodPost, "/", nil), 1)
			if refusal != nil {
				t.Fatal(refusal)
			}
			defer leave()
			time.AfterFunc(time.Second, exit)
			_, _, refusal = g.receive(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil), read, g.bodies.budget.Claim())
			if refusal == nil || refusal.Status != http.StatusServiceUnavailable || refusal.Code != "server_shutting_down" || refusal.RetryAfter == 0 {
				t.Errorf("%s: %+v", name, refusal)
			}
		})
	}
}

// A client that sends its body slowly does not hold the exit up, and is told.
func TestSlowBodyAtExit(t *testing.T) {
	g, exit := exitingGateway(t, Options{MaxBody: 100, MaxBodyMemory: 1 << 20, MaxConcurrent: 1, Logger: discard()})
	reading := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _, refusal := g.receive(w, r, func(w http.ResponseWriter, r *http.Request, memory *budget.Claim) (*request, *openai.Error) {
			close(reading)
			_, refusal := g.readBody(w, r, memory)
			return nil, refusal
		}, g.bodies.budget.Claim())
		g.refuse(w, r, refusal)
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	<-reading
	exit()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "server_shutting_down") || response.Header.Get("Retry-After") == "" {
		t.Errorf("%v, %s %v %s", err, response.Status, response.Header, body)
	}
}
