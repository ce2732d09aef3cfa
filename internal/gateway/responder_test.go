package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

func streamOf(g *Gateway, ex *exchange) *responder {
	answer := chat.NewEncoder(chat.Meta{ID: "chatcmpl-1", Settings: prompt.Settings{Model: "m"}})
	req := &request{plan: &prompt.Plan{Settings: prompt.Settings{Stream: true}}, answer: answer, form: answer.Form()}
	return g.newResponder(ex, req)
}

func newTestResponder(t *testing.T) (*responder, *httptest.ResponseRecorder) {
	g, _ := exitingGateway(t, Options{MaxConcurrent: 1, Keepalive: 10 * time.Second})
	w := httptest.NewRecorder()
	x := g.newExchange(w, httptest.NewRequest(http.MethodPost, "/", nil))
	return streamOf(g, x), w
}

var (
	textOutput    = turn.Output{Kind: turn.OutputText, Text: "hi"}
	finishOutput  = turn.Output{Kind: turn.OutputFinish, End: &turn.End{Finish: turn.FinishStop}}
	failureOutput = turn.Output{Kind: turn.OutputFailure, Err: codexrpc.ErrClosed}
)

// TestFailureBeforeOutput: it is an HTTP status, as long as no header was sent.
func TestFailureBeforeOutput(t *testing.T) {
	s, w := newTestResponder(t)
	outcome := s.finish(failures.APIError(codexrpc.ErrClosed))
	if outcome.apiErr == nil || outcome.apiErr.Code != "codex_exited" || outcome.streamed || w.Code != http.StatusServiceUnavailable {
		t.Errorf("%+v: %d %q", outcome, w.Code, w.Body)
	}
}

// TestWakeAfterFailure: the choice that is woken last must not write a header
// before the status of the one that has failed.
func TestWakeAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newTestResponder(t)
		run := &runningRequest{ex: new(exchange), responder: s, req: &request{statusEntry: new(status.Entry)}}
		newChoice := func() *choice {
			return &choice{run: run, options: new(turn.Options), firstOutput: time.Now()}
		}
		failed, other := newChoice(), newChoice()
		time.Sleep(headerDelay)
		if err := failed.Consume([]turn.Output{failureOutput}); err != nil {
			t.Errorf("the failed choice: %v", err)
		}
		broken := failures.APIError(failureOutput.Err)
		if err := run.fail(failed, broken); !errors.Is(err, broken) {
			t.Errorf("the request: %v", err)
		}
		if err := other.Wake(); !errors.Is(err, broken) || w.Flushed || s.opened {
			t.Errorf("the other: %v, written: %t", err, w.Flushed)
		}
		// How the other has ended is known all the same.
		finish := turn.Output{Kind: turn.OutputFinish, End: &turn.End{Finish: turn.FinishStop}}
		if err := other.Consume([]turn.Output{finish}); !errors.Is(err, broken) || other.finish != turn.FinishStop {
			t.Errorf("the other ends: %v, %+v", err, other.finish)
		}
	})
}

func TestFailureAfterOutput(t *testing.T) {
	for name, begin := range map[string]func(*responder) error{
		"an output": func(s *responder) error { return s.write(0, []turn.Output{textOutput}) },
		"awakened": func(s *responder) error {
			time.Sleep(headerDelay)
			return s.wake(0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, w := newTestResponder(t)
				must.OK(t, begin(s))
				if outcome := s.finish(failures.APIError(codexrpc.ErrClosed)); !outcome.streamed || outcome.isCutOff() || outcome.apiErr == nil {
					t.Errorf("%+v", outcome)
				}
				if body := w.Body.String(); w.Code != 200 || !strings.Contains(body, `{"error":`) || !strings.HasSuffix(body, "data: [DONE]\n\n") {
					t.Errorf("%d %q", w.Code, body)
				}
			})
		})
	}
}

// TestHeaderAndKeepalives: the header waits for a second, then come comments.
func TestHeaderAndKeepalives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newTestResponder(t)
		if got := s.nextWake(); got != headerDelay {
			t.Errorf("the header is due in %s", got)
		}
		if err := s.wake(0); err != nil || w.Flushed {
			t.Errorf("the header went out early: %v", err)
		}
		time.Sleep(s.nextWake())
		if err := s.wake(0); err != nil || !w.Flushed || w.Code != 200 {
			t.Errorf("the header is late: %v", err)
		}
		if got := w.Header().Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("content type %q", got)
		}
		time.Sleep(s.nextWake())
		if err := s.wake(0); err != nil || w.Body.String() != ": keepalive\n\n" {
			t.Errorf("%v, body %q", err, w.Body)
		}
	})
}

// TestHeaderWaitsAnew: a turn that is started again may fail with an HTTP status, too.
func TestHeaderWaitsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newTestResponder(t)
		for range 3 {
			time.Sleep(headerDelay - time.Millisecond)
			if err := s.wake(0); err != nil || w.Flushed {
				t.Errorf("the header went out early: %v", err)
			}
			s.restart()
		}
		if got := s.nextWake(); got != headerDelay {
			t.Errorf("the header is due in %s", got)
		}
	})
}

// TestWrites: each batch of outputs is one write to the connection, and so is the last one
// with the end of the body. Neither the length nor the form of the body depends on it.
func TestWrites(t *testing.T) {
	texts := []turn.Output{textOutput, textOutput, textOutput}
	whole := append(slices.Clone(texts), finishOutput)
	for name, batches := range map[string][][]turn.Output{"one batch": {whole}, "three": {texts, texts, {finishOutput}}} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprint(name, http2), func(t *testing.T) {
				g, _ := exitingGateway(t, Options{MaxConcurrent: 1, Keepalive: time.Minute})
				handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					x := g.newExchange(w, r)
					defer x.close()
					s := streamOf(g, x)
					defer s.close()
					for _, outputs := range batches {
						if err := s.write(0, outputs); err != nil {
							t.Error(err)
						}
					}
					g.conclude(r, s.finish(nil))
				})
				server, client := newServerH2C(t, handler), newClientH2C()
				var writes atomic.Int64
				if !http2 {
					server = httptest.NewUnstartedServer(handler)
					server.Listener = writeCounter{server.Listener, &writes}
					server.Start()
					t.Cleanup(server.Close)
					client = server.Client()
				}
				for range 2 { // the second on the same connection
					writes.Store(0)
					response, err := client.Get(server.URL)
					must.OK(t, err)
					body, err := io.ReadAll(response.Body)
					if _ = response.Body.Close(); err != nil || !strings.HasSuffix(string(body), "data: [DONE]\n\n") || strings.Count(string(body), "hi") != len(batches)/2*3+3 {
						t.Errorf("%v, read %q", err, body)
					}
					if response.ContentLength >= 0 || slices.Equal(response.TransferEncoding, []string{"chunked"}) == http2 {
						t.Errorf("length %d, encoding %v", response.ContentLength, response.TransferEncoding)
					}
					if n := int(writes.Load()); !http2 && n != len(batches) {
						t.Errorf("%d writes for %d batches", n, len(batches))
					}
				}
				client.CloseIdleConnections()
			})
		}
	}
}

type writeCounter struct {
	net.Listener
	writes *atomic.Int64
}

func (l writeCounter) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return &countedConn{conn, l.writes}, err
}

type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// brokenWriter has a client that takes nothing.
type brokenWriter struct{ *httptest.ResponseRecorder }

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestLostClient: a client that does not take its answer is counted as one that has
// left, and a stream that has begun is cut off.
func TestLostClient(t *testing.T) {
	g, _ := exitingGateway(t, Options{MaxConcurrent: 1})
	x := g.newExchange(brokenWriter{httptest.NewRecorder()}, httptest.NewRequest(http.MethodPost, "/", nil))
	begin := func() *responder {
		return streamOf(g, x)
	}
	outcome := begin().finish(nil)
	if outcome.apiErr != nil {
		t.Errorf("nothing was written, and %+v", outcome)
	}
	s := begin()
	outcome = s.finish(s.write(0, []turn.Output{textOutput, finishOutput}))
	r := newRecord(x, &request{api: &chat.API, plan: new(prompt.Plan)}, &choice{turn: new(conversation.Turn)}, outcome.apiErr)
	if r.Status != 499 || r.Code != apierror.ClientGone().Code || !outcome.isCutOff() {
		t.Errorf("%+v, cut: %t", r, outcome.isCutOff())
	}
}

// TestIgnoredParams: the header stays short, however much was ignored.
func TestIgnoredParams(t *testing.T) {
	if got := ignoredParams([]string{"temperature", "seed"}); got != "temperature, seed" {
		t.Errorf("got %q", got)
	}
	names := make([]string, 1024)
	for i := range names {
		names[i] = "tools[1023].tools[1000000]"
	}
	got := ignoredParams(names)
	if len(got) > 1024 || !strings.HasSuffix(got, ", and 992 more") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// firstDelta adds the first delta of a turn to the answer that starts it. The turns are
// started one after another.
type firstDelta struct {
	out    io.Writer
	thread []byte
}

var startedThread, startedTurn = regexp.MustCompile(`"thread":\{"id":"([^"]+)"`), regexp.MustCompile(`"turn":\{"id":"([^"]+)"`)

func (f *firstDelta) Write(line []byte) (int, error) {
	if thread := startedThread.FindSubmatch(line); thread != nil {
		f.thread = bytes.Clone(thread[1])
	}
	if turn := startedTurn.FindSubmatch(line); turn != nil {
		line = fmt.Appendf(line, `{"method":"item/agentMessage/delta","params":{"threadId":%q,"turnId":%q,"itemId":"item","delta":"x"}}`+"\n", f.thread, turn[1])
	}
	return f.out.Write(line)
}

// begunAnswer is a response writer that says when the first event comes.
type begunAnswer struct {
	header http.Header
	once   sync.Once
	begun  chan struct{}
}

func (b *begunAnswer) Header() http.Header { return b.header }
func (b *begunAnswer) WriteHeader(int)     {}
func (b *begunAnswer) Flush()              {}
func (b *begunAnswer) Write(p []byte) (int, error) {
	b.once.Do(func() { close(b.begun) })
	return len(p), nil
}

// TestOpenStreamMemory: what a stream holds while it waits for its next delta is bounded,
// with the objects of this test and without those of the server.
func TestOpenStreamMemory(t *testing.T) {
	const streams, most, prompt = 200, 10_000, 20_000
	g := newGateway(newServedUpstream(t, func(in io.Reader, out io.Writer) { answerAll(in, &firstDelta{out: out}) }), Options{MaxConcurrent: streams + 1})
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("x", prompt) + `"}]}`
	open := func() {
		w := &begunAnswer{header: http.Header{}, begun: make(chan struct{})}
		r := posting(chatPath, body).WithContext(ctx)
		all.Go(func() {
			defer func() { _ = recover() }() // http.ErrAbortHandler, since the client leaves
			g.ServeHTTP(w, r)
		})
		<-w.begun
	}
	open() // has what all streams share
	before := heap()
	for range streams {
		open()
	}
	each := (heap() - before) / streams
	leave()
	all.Wait()
	t.Logf("%d bytes a stream", each)
	if each > most {
		t.Errorf("%d bytes a stream, want at most %d: a stream holds something that it does not need any more", each, most)
	}
}

// wayLine is a line of the ways in docs/dev/architecture.md that names a function.
var wayLine = regexp.MustCompile(`(?m)^ {4}(\w+)\.((?:\w+\.)?\w+)(?: |$)`)

// TestWayOfARequest: the functions that docs/dev/architecture.md lists exist.
func TestWayOfARequest(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "dev", "architecture.md"))
	must.OK(t, err)
	_, way, found := strings.Cut(string(text), "## The way of a request\n")
	way, _, ended := strings.Cut(way, "\n## ")
	lines := wayLine.FindAllStringSubmatch(way, -1)
	if !found || !ended || len(lines) < 40 {
		t.Fatalf("the way has %d functions", len(lines))
	}
	packages := make(map[string]map[string]*ast.FuncDecl)
	for _, line := range lines {
		name := line[1]
		if packages[name] == nil {
			packages[name] = make(map[string]*ast.FuncDecl)
			for _, parent := range []string{"", "internal", "codexrpc", "aggregator"} {
				maps.Copy(packages[name], functionsOf(t, filepath.Join(root, parent, name)))
			}
		}
		if function := name + "." + line[2]; packages[name][function] == nil {
			t.Errorf("there is no %s", function)
		}
	}
}
