package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/reqbody"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

func TestReadBody(t *testing.T) {
	g, _ := exitingGateway(t, Options{MaxBody: 100, MaxBodyMemory: 1 << 20, MaxConcurrent: 1})
	for name, c := range map[string]struct {
		body   io.Reader
		length int64
		status int // 0: it is read
	}{
		"empty":                   {bytes.NewReader(nil), 0, 0},
		"at the limit":            {bytes.NewReader(make([]byte, 100)), 100, 0},
		"of unknown length":       {iotest.OneByteReader(bytes.NewReader(make([]byte, 100))), -1, 0},
		"announced as too large":  {bytes.NewReader(nil), 101, http.StatusRequestEntityTooLarge},
		"too large after all":     {bytes.NewReader(make([]byte, 101)), -1, http.StatusRequestEntityTooLarge},
		"no memory":               {bytes.NewReader(make([]byte, 100)), 100, http.StatusServiceUnavailable},
		"cut off":                 {iotest.ErrReader(io.ErrUnexpectedEOF), 50, http.StatusBadRequest},
		"limited by another":      {iotest.ErrReader(&http.MaxBytesError{Limit: 7}), -1, http.StatusRequestEntityTooLarge},
		"shorter than announced":  {bytes.NewReader(make([]byte, 10)), 50, 0},
		"the error comes at last": {iotest.DataErrReader(bytes.NewReader(make([]byte, 100))), 100, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/", c.body)
			r.ContentLength = c.length
			x := g.newExchange(httptest.NewRecorder(), r)
			defer x.close()
			if c.status == http.StatusServiceUnavailable {
				others := g.bodies.Claim("a")
				defer others.Release()
				for others.Grow(10) {
				}
			}
			body, _, apiErr := g.readBody(x)
			if c.status == 0 {
				if apiErr != nil {
					t.Error(apiErr)
				}
				return
			}
			if apiErr == nil || apiErr.Status != c.status {
				t.Errorf("%d bytes, %v; want %d", len(body), apiErr, c.status)
			}
		})
	}
}

// TestTrickle: over HTTP/1 a client that goes on too slowly is told, and its connection is closed.
func TestTrickle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(noUpstream{}, Options{MaxConcurrent: 1})
		ours, theirs := net.Pipe()
		server := http.Server{Handler: g}
		go func() { _ = server.Serve(&oneConn{conn: theirs}) }()
		defer server.Close()
		var trickle sync.WaitGroup
		defer trickle.Wait()
		trickle.Go(func() {
			_, err := fmt.Fprintf(ours, "POST "+chatPath+" HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n%400000d", 1)
			for err == nil {
				time.Sleep(time.Second)
				_, err = ours.Write([]byte(" "))
			}
		})
		start := time.Now()
		answer, err := io.ReadAll(ours)
		if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 408 ")) || !bytes.Contains(answer, []byte("Connection: close")) ||
			!bytes.Contains(answer, []byte(`"code":"request_timeout"`)) || time.Since(start) > 20*time.Second {
			t.Errorf("after %s: %v %s", time.Since(start), err, answer)
		}
	})
}

// TestQueueFullBeforeBody: where no turn can run nor wait, the body is not read.
func TestQueueFullBeforeBody(t *testing.T) {
	g, _ := exitingGateway(t, Options{MaxBody: 100, MaxBodyMemory: 400, MaxConcurrent: 1})
	leave, apiErr := admitTurns(t.Context(), g, "", 1)
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	r := httptest.NewRequest(http.MethodPost, "/", iotest.ErrReader(errors.New("it is read")))
	if _, apiErr := g.acceptAt(chatPath, g.newExchange(httptest.NewRecorder(), r)); apiErr == nil || apiErr.Code != "codex_queue_full" {
		t.Error(apiErr)
	}
	leave()
	if _, apiErr := g.acceptAt(chatPath, g.newExchange(httptest.NewRecorder(), r)); apiErr == nil || !strings.Contains(apiErr.Message, "it is read") {
		t.Error(apiErr)
	}
}

// TestSilentBodyIsAnswered: over HTTP/1 the end of the reading ends the context
// of the request, and its client is still told why.
func TestSilentBodyIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, end := sendSilentBody(noUpstream{})
		defer end()
		response, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusRequestTimeout {
			t.Errorf("it is answered with %s", response.Status)
		}
	})
}

// TestSilentBodyAtExit: a request that comes when the server exits is refused at once, and its
// connection ends although the body does not come.
func TestSilentBodyAtExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, end := sendSilentBody(exitingUpstream{})
		defer end()
		answer, err := io.ReadAll(client)
		if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 503 ")) || !bytes.Contains(answer, []byte(`"server_shutting_down"`)) {
			t.Errorf("%v %s", err, answer)
		}
	})
}

// sendSilentBody sends a request whose body does not come to its end. end ends the connection
// and the server.
func sendSilentBody(upstream conversation.Upstream) (client net.Conn, end func()) {
	g := newGateway(upstream, Options{MaxConcurrent: 1})
	client, conn := net.Pipe()
	server := &http.Server{Handler: g}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(&oneConn{conn: conn}) })
	go func() {
		_, _ = client.Write([]byte("POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"))
	}()
	return client, func() {
		_ = client.Close()
		_ = server.Close()
		serving.Wait()
	}
}

// exitingUpstream leases nothing any more.
type exitingUpstream struct{}

func (exitingUpstream) Lease() (conversation.Lease, error) { return nil, turn.ErrShutdown }

type noUpstream struct{}

func (noUpstream) Lease() (conversation.Lease, error) { return &fakeLease{u: &fakeUpstream{}}, nil }

type oneConn struct {
	once sync.Once
	conn net.Conn
}

// Accept gives the connection, once.
func (l *oneConn) Accept() (conn net.Conn, err error) {
	err = net.ErrClosed
	l.once.Do(func() { conn, err = l.conn, nil })
	return conn, err
}

// Close ends nothing.
func (l *oneConn) Close() error { return nil }

// Addr is that of the connection.
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func requestOf(user string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("User", user)
	return r
}

// admitTurns admits the turns of a request of a user, until leave is called.
func admitTurns(ctx context.Context, g *Gateway, user string, turns int) (leave func(), apiErr *apierror.Error) {
	x := g.newExchange(httptest.NewRecorder(), requestOf(user).WithContext(ctx))
	return x.close, g.admit(x, turns)
}

// What a client is told who gets no turn.
func TestAdmitRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := exitingGateway(t, Options{MaxConcurrent: 2, MaxQueue: 1, QueueWait: time.Minute})
		leave, apiErr := admitTurns(t.Context(), g, "a", 2)
		if apiErr != nil {
			t.Fatal(apiErr)
		}
		check := func(what string, turns, status int, code apierror.Code, param string, after time.Duration) {
			t.Helper()
			start := time.Now()
			_, apiErr := admitTurns(t.Context(), g, "a", turns)
			if apiErr == nil || apiErr.Status != status || apiErr.Code != code || apiErr.Param != param {
				t.Fatalf("%s: %+v", what, apiErr)
			}
			if status != http.StatusBadRequest && apiErr.RetryAfter == 0 {
				t.Errorf("%s: when to come back is not said", what)
			}
			if took := time.Since(start); took != after {
				t.Errorf("%s: told after %s", what, took)
			}
		}
		check("more than there are", 3, http.StatusBadRequest, "", "n", 0)
		check("no place in time", 1, http.StatusServiceUnavailable, "codex_queue_timeout", "", time.Minute)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if second, apiErr := admitTurns(t.Context(), g, "a", 1); apiErr != nil {
				t.Error(apiErr)
			} else {
				second()
			}
		}()
		synctest.Wait()
		check("no place to wait", 1, http.StatusTooManyRequests, "codex_queue_full", "", 0)
		leave()
		<-done
	})
}

// A client that goes while it waits leaves its place.
func TestAdmitClientGone(t *testing.T) {
	g, _ := exitingGateway(t, Options{MaxConcurrent: 1, MaxQueue: 1, QueueWait: time.Hour, Logger: discard()})
	leave, apiErr := admitTurns(t.Context(), g, "a", 1)
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	defer leave()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, apiErr = admitTurns(ctx, g, "a", 1)
	if apiErr == nil || apiErr.Code != apierror.ClientGone().Code || g.queue.Len() != 0 {
		t.Errorf("%+v, %d wait", apiErr, g.queue.Len())
	}
	w := httptest.NewRecorder()
	if g.refuse(w, requestOf("a").WithContext(ctx), apiErr); w.Code != apierror.ClientGone().Status {
		t.Errorf("answered %d: %s", w.Code, w.Body)
	}
}

// A user who wants all places leaves some to others, or has a fixed number.
func TestAdmitPerUser(t *testing.T) {
	for most, want := range map[int]int{0: 7, 3: 3, 8: 8} {
		g, _ := exitingGateway(t, Options{MaxConcurrent: 8, MaxPerUser: most})
		if leave, apiErr := admitTurns(t.Context(), g, "b", 1); apiErr != nil {
			t.Fatal(apiErr)
		} else {
			leave()
		}
		got := 0
		g.crowd.Note("b")
		for range 9 {
			if _, apiErr := admitTurns(t.Context(), g, "a", 1); apiErr == nil {
				got++
			} else if apiErr.Code != "codex_queue_full" {
				t.Error(apiErr)
			}
		}
		if got != want {
			t.Errorf("with %d for a user, one got %d places", most, got)
		}
	}
	g, _ := exitingGateway(t, Options{MaxConcurrent: 8, MaxPerUser: 3})
	if _, apiErr := admitTurns(t.Context(), g, "a", 4); apiErr == nil || apiErr.Param != "n" || !strings.Contains(apiErr.Message, "at most 3") {
		t.Errorf("more choices than a user may have: %v", apiErr)
	}
}

// TestCountEndsWithClient checks that a count ends at its next pause once its client has gone, and
// leaves nothing behind.
func TestCountEndsWithClient(t *testing.T) {
	g := newGateway(nil, Options{MaxConcurrent: 1})
	ctx, leave := context.WithCancel(t.Context())
	x := g.newExchange(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
	body := g.bodies.Claim("a")
	x.releaseOnClose(body)
	pauses := 0
	_, apiErr := g.countTokens(x, body, func(pause func() error) (int, error) {
		for {
			if pauses++; pauses == 3 {
				leave()
			}
			if err := pause(); err != nil {
				return 0, err
			}
		}
	})
	if apiErr == nil || pauses != 3 {
		t.Errorf("%v after %d pauses", apiErr, pauses)
	}
	if n, apiErr := g.countTokens(x, body, func(func() error) (int, error) { return 0, errors.New("any") }); apiErr == nil {
		t.Errorf("%d tokens in spite of an error", n)
	}
	if x.close(); g.bodies.Held() != 0 {
		t.Errorf("%d bytes are left", g.bodies.Held())
	}
}

// TestLongCount checks that what is decoded for a long count needs memory.
func TestLongCount(t *testing.T) {
	u := talkative(t, 1)
	body := `{"model":"m","input":"` + strings.Repeat("word ", 40_000) + `"}`
	for memory, want := range map[int64]int{2 << 20: http.StatusOK, 1<<20 + 300<<10: http.StatusServiceUnavailable} {
		g := newGateway(u, Options{MaxConcurrent: 1})
		g.bodies = reqbody.NewPool(memory, 1<<20, g.crowd)
		w := post(g, "/v1/responses/input_tokens", body)
		if w.Code != want || want == http.StatusOK && !strings.Contains(w.Body.String(), `"input_tokens":40`) {
			t.Errorf("with %d bytes: %d %s", memory, w.Code, w.Body)
		}
		if g.bodies.Held() != 0 || g.queue.Running() != 0 || g.requestSlots.Held() != 0 || g.answerBudget.Held() != 0 {
			t.Errorf("with %d bytes: something is left", memory)
		}
	}
}

// TestOneProcessorSuffices checks that a large request occupies one processor at a time.
func TestOneProcessorSuffices(t *testing.T) {
	g := newGateway(saying(t, textPart("Hello")), Options{MaxConcurrent: 2})
	g.processors = newProcessors(1)
	body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, strings.Repeat("word ", largeRequestSize/5))
	if w := post(g, chatPath, body); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestComputeInTurn checks that large requests take turns, and that small ones do not.
func TestComputeInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gateway{processors: newProcessors(2)}
		for _, c := range []struct {
			size int64
			want time.Duration
		}{{largeRequestSize, 5 * time.Second}, {largeRequestSize - 1, time.Second}} {
			start := time.Now()
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() { g.compute(&exchange{arrived: start}, c.size, func() { time.Sleep(time.Second) }) })
			}
			all.Wait()
			if took := time.Since(start); took != c.want {
				t.Errorf("ten of %d bytes took %s, want %s", c.size, took, c.want)
			}
		}
	})
}
