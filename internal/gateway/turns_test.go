package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

const notFound = `{"id":%s,"error":{"code":-32600,"message":"thread not found"}}` + "\n"

// refusing returns what refuses the third call of a method: the first in a thread that was
// started before its request.
func refusing(method string) func(id, called, line string) string {
	calls := 0
	return func(id, called, _ string) string {
		if called == method {
			if calls++; calls == 3 {
				return fmt.Sprintf(notFound, id)
			}
		}
		return ""
	}
}

// answering plays recordings, but answers a call with what instead returns, unless that is empty.
func answering(t *testing.T, instead func(id, method, line string) string) func(in io.Reader, out io.Writer) {
	play := playing(transcripts(t), fakecodex.Options{Default: "text"})
	return func(in io.Reader, out io.Writer) {
		passed, pass := io.Pipe()
		var writing sync.Mutex
		var filter sync.WaitGroup
		filter.Go(func() {
			lines := bufio.NewScanner(in)
			for lines.Scan() {
				call := callHead.FindStringSubmatch(lines.Text())
				if call != nil {
					if answer := instead(call[1], call[2], lines.Text()); answer != "" {
						writing.Lock()
						_, _ = io.WriteString(out, answer)
						writing.Unlock()
						continue
					}
				}
				if _, err := fmt.Fprintln(pass, lines.Text()); err != nil {
					break
				}
			}
			_ = pass.CloseWithError(lines.Err())
		})
		play(passed, lockedWriter{&writing, out})
		_ = passed.Close()
		filter.Wait()
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// keepThreads lets the upstream keep threads, and prepare one for the next conversation.
func (u *fakeUpstream) keepThreads(t *testing.T) {
	limits := conversation.Limits{Max: 10, MaxBytes: 1 << 20, Idle: time.Hour, Spares: 1}
	u.conversations = conversation.NewThreads(limits, func() bool { return false })
	t.Cleanup(u.conversations.Close)
}

func (u *fakeUpstream) awaitSpare(t *testing.T) {
	t.Helper()
	must.Happen(t, "a thread is prepared", func() bool { return u.conversations.Stats().Spare > 0 })
}

// TestSpareThreadThatIsRefused checks that a request is answered on a fresh thread if the
// app-server does not take the turn, or the history, in the thread that was prepared for it.
func TestSpareThreadThatIsRefused(t *testing.T) {
	for _, method := range []string{"turn/start", "thread/inject_items"} {
		t.Run(method, func(t *testing.T) {
			u := newServedUpstream(t, answering(t, refusing(method)))
			u.keepThreads(t)
			g := newGateway(u, Options{MaxConcurrent: 1})
			for i := range 4 {
				body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"},{"role":"user","content":"z %d"}]}`, i)
				answer := post(g, chatPath, body)
				if answer.Code != http.StatusOK {
					t.Fatalf("%d: %d %s", i, answer.Code, answer.Body)
				}
				if i > 0 {
					u.awaitSpare(t)
				}
			}
			if got := u.conversations.Stats(); got.Prepared != 2 {
				t.Errorf("%d requests got a spare thread", got.Prepared)
			}
		})
	}
}

// TestNoSpareThreadAgain checks that a turn which has failed in a kept thread gets a fresh one:
// a spare one may be of no use either, and there is no third.
func TestNoSpareThreadAgain(t *testing.T) {
	started, turns := 0, 0
	u := newServedUpstream(t, answering(t, func(id, method, line string) string {
		if method == "thread/start" {
			started++
		}
		if method != "turn/start" {
			return ""
		}
		switch turns++; {
		case turns == 3: // in the kept thread
			return fmt.Sprintf(`{"id":%s,"result":{"turn":{"id":"failed"}}}`+"\n"+
				`{"method":"turn/completed","params":{"threadId":%s,"turn":{"id":"failed","status":"failed","items":[],"error":{"message":"gone"}}}}`+"\n",
				id, gjson.Get(line, "params.threadId").Raw)
		case turns == 4 && started == 3: // in the spare one
			return fmt.Sprintf(notFound, id)
		}
		return ""
	}))
	u.keepThreads(t)
	g := newGateway(u, Options{MaxConcurrent: 1})
	ask := func(messages string) string {
		t.Helper()
		answer := post(g, chatPath, `{"model":"m","messages":[`+messages+`]}`)
		if answer.Code != http.StatusOK {
			t.Fatalf("%d %s", answer.Code, answer.Body)
		}
		return gjson.Get(answer.Body.String(), "choices.0.message").Raw
	}
	const question = `{"role":"user","content":"x"}`
	ask(question)
	message := ask(question)
	u.awaitSpare(t)
	ask(question + "," + message + "," + question)
	if got := u.conversations.Stats(); got.Continued != 1 || got.Prepared != 0 {
		t.Errorf("the turn did not fail in a kept thread: %+v", got)
	}
}

// TestSilenceInASpareThread checks that a turn which is silent for the idle timeout is not
// started again since its thread was started before the request.
func TestSilenceInASpareThread(t *testing.T) {
	turns := 0
	u := newServedUpstream(t, answering(t, func(id, method, _ string) string {
		if method == "turn/start" {
			if turns++; turns == 3 {
				return fmt.Sprintf(`{"id":%s,"result":{"turn":{"id":"silent"}}}`+"\n", id)
			}
		}
		return ""
	}))
	u.keepThreads(t)
	g := newGateway(u, Options{MaxConcurrent: 1})
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusGatewayTimeout} {
		if i == 2 {
			u.awaitSpare(t)
			g.opener.IdleTimeout = 10 * time.Millisecond
		}
		answer := post(g, chatPath, `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
		if answer.Code != want {
			t.Errorf("%d: %d %s, want %d", i, answer.Code, answer.Body, want)
		}
	}
	if got := u.conversations.Stats(); got.Prepared != 1 {
		t.Errorf("%d requests got a spare thread", got.Prepared)
	}
}

// newPlayed returns an upstream whose app-server plays recordings, with options
// that may differ for each start.
func newPlayed(t *testing.T, options func(start int) fakecodex.Options) *fakeUpstream {
	t.Helper()
	all := transcripts(t)
	starts := 0
	u := &fakeUpstream{process: appserver.New(appserver.Config{
		Start: func() (*appserver.Program, error) {
			starts++
			return startServing(playing(all, options(starts))), nil
		},
	}, nil)}
	u.process.Start()
	t.Cleanup(u.process.Stop)
	return u
}

func transcripts(t testing.TB) *fakecodex.Transcripts {
	t.Helper()
	all, err := fakecodex.Load(filepath.Join("..", "..", "testdata", "transcripts"))
	must.OK(t, err)
	return all
}

func playing(all *fakecodex.Transcripts, opts fakecodex.Options) func(in io.Reader, out io.Writer) {
	opts.Transcripts = all
	return func(in io.Reader, out io.Writer) { _ = fakecodex.Serve(context.Background(), in, out, opts) }
}

// TestAppServerEndsAtTheStart: a request whose app-server ends before its turn has
// begun waits for the next one, also if there is no other.
func TestAppServerEndsAtTheStart(t *testing.T) {
	u := newPlayed(t, func(start int) fakecodex.Options {
		opts := fakecodex.Options{Default: "text"}
		if start == 1 {
			opts.Faults.DieAt = "thread/start"
		}
		return opts
	})
	g := newGateway(u, Options{MaxConcurrent: 1})
	answer := post(g, chatPath, `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	if answer.Code != http.StatusOK {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	if n := u.process.Status().Restarts; n != 1 {
		t.Errorf("it was started again %d times", n)
	}
}

// TestMuteMethods: whatever an app-server does not answer, each request has a
// proper end, and then a fresh app-server serves.
func TestMuteMethods(t *testing.T) {
	const history = `{"role":"assistant","content":"a"},`
	for method, test := range map[string]struct {
		failures []string // of requests one after another, until one is served
		most     time.Duration
	}{
		// The next request is served by the next start.
		"initialize":          {[]string{"503 codex_not_ready"}, time.Minute},
		"getAuthStatus":       {[]string{"503 codex_not_ready"}, time.Minute},
		"thread/start":        {[]string{"504 codex_timeout", "504 codex_timeout"}, 2 * time.Minute},
		"thread/inject_items": {[]string{"504 codex_timeout", "504 codex_timeout"}, 2 * time.Minute},
		"turn/start":          {[]string{"504 codex_timeout", "504 codex_timeout"}, 2 * time.Minute},
		// What ends a turn for its client does not hang on these.
		"turn/interrupt":     {nil, time.Minute},
		"thread/unsubscribe": {nil, time.Minute},
		"server/diagnostics": {nil, time.Minute},
		"account/read":       {nil, time.Minute},
	} {
		t.Run(strings.ReplaceAll(method, "/", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newPlayed(t, func(start int) fakecodex.Options {
					opts := fakecodex.Options{Default: "text"}
					if start == 1 {
						opts.Faults.Mute = []string{method}
					}
					return opts
				})
				g := newGateway(u, Options{MaxConcurrent: 1})
				begin := time.Now()
				for n := 0; ; n++ {
					answer := post(g, chatPath, `{"model":"m","messages":[`+history+`{"role":"user","content":"x"}]}`)
					if answer.Code == http.StatusOK && n == len(test.failures) {
						break
					}
					var code string
					if _, rest, ok := strings.Cut(answer.Body.String(), `"code":"`); ok {
						code, _, _ = strings.Cut(rest, `"`)
					}
					if n >= len(test.failures) || fmt.Sprint(answer.Code, " ", code) != test.failures[n] {
						t.Fatalf("request %d: %d %s", n, answer.Code, answer.Body)
					}
					time.Sleep(time.Second) // as clients wait before they try again
				}
				if took := time.Since(begin); took > test.most {
					t.Errorf("it was served after %s", took)
				}
				u.process.Stop()
			})
		})
	}
}

// TestClientsLeave: clients that go at every moment, while their requests are read, wait, start and
// run, leave nothing behind: no slot, no place in the queue, no lease, no process held, no thread.
func TestClientsLeave(t *testing.T) {
	u := newFakeUpstream(t, fakecodex.Options{Default: "multibyte", Faults: fakecodex.Faults{Delay: time.Millisecond}})
	server := leaveAtRandom(t, u, http.StatusOK)
	// And all slots can be had.
	response, err := http.Post(server.URL+chatPath, "application/json", strings.NewReader(fmt.Sprintf(`{"model":"m","n":%d,"messages":[{"role":"user","content":"x"}]}`, maxTestChoices)))
	must.OK(t, err)
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK || strings.Count(string(body), `"finish_reason":"stop"`) != maxTestChoices {
		t.Errorf("%v %s %s", err, response.Status, body)
	}
}

// TestClientsLeaveTheDying: the same with an app-server that dies again and again.
func TestClientsLeaveTheDying(t *testing.T) {
	u := newFakeUpstream(t, fakecodex.Options{Default: "multibyte", Faults: fakecodex.Faults{DieAfter: 500}})
	leaveAtRandom(t, u, http.StatusOK, http.StatusServiceUnavailable)
	if u.process.Status().Restarts == 0 {
		t.Error("the app-server has not died")
	}
}

// leaveAtRandom lets many clients ask and leave, and checks what they leave
// behind. Those that stay are to get one of the statuses.
func leaveAtRandom(t *testing.T, u *fakeUpstream, statuses ...int) *httptest.Server {
	t.Helper()
	const clients, requests, slots = 16, 12, 12
	observer := new(witness)
	// The server hears a little later than the client that it has left.
	g := newGateway(u, Options{MaxConcurrent: slots, MaxQueue: clients * requests, QueueWait: patience, Keepalive: 5 * time.Millisecond, Observer: observer})
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	var all sync.WaitGroup
	for i := range clients {
		r := rand.New(rand.NewPCG(uint64(i), 8))
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for range requests {
				askAndLeave(t, client, server.URL+chatPath, r, statuses)
			}
		})
	}
	all.Wait()
	left := func() string {
		in, err := u.process.Instance(t.Context())
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%d slots, %d in the queue, %d leases, %d turns, %d threads, %d answers",
			g.queue.Running(), g.queue.Len(), u.leases.Load(), u.turns.Load(), in.Conn().Threads(), observer.underWay())
	}
	const nothing = "0 slots, 0 in the queue, 0 leases, 0 turns, 0 threads, 0 answers"
	must.Happen(t, "nothing is left behind", func() bool { return left() == nothing }, left)
	if len(observer.turns) == 0 {
		t.Error("no turn was run")
	}
	return server
}

const maxTestChoices = 8

// askAndLeave sends a request and leaves at a random moment, or not at all.
func askAndLeave(t *testing.T, client *http.Client, url string, r *rand.Rand, statuses []int) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	choices, stays := 1+r.IntN(maxTestChoices), r.IntN(6) == 0
	body := fmt.Sprintf(`{"model":"m","n":%d,"stream":%t,"messages":[{"role":"assistant","content":"a"},{"role":"user","content":"x"}]}`, choices, r.IntN(2) == 0)
	var reader io.Reader = strings.NewReader(body)
	if !stays {
		time.AfterFunc(time.Duration(r.ExpFloat64()*float64(20*time.Millisecond)), cancel)
		if r.IntN(5) == 0 { // a body without its end
			reader = io.MultiReader(strings.NewReader(body[:len(body)/2]), silence{ctx})
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, reader)
	if err != nil {
		t.Error(err)
		return
	}
	response, err := client.Do(request)
	if err == nil {
		defer response.Body.Close()
		var answer []byte
		if answer, err = io.ReadAll(response.Body); stays && !slices.Contains(statuses, response.StatusCode) {
			t.Errorf("%s %s", response.Status, answer)
		}
	}
	if stays && err != nil {
		t.Error(err)
	}
}

type silence struct{ ctx context.Context }

func (s silence) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// TestResets: streams of HTTP/2 that are reset at every moment, most of them while their bodies are
// read, end nothing but themselves. `go test -run TestResets -count 10` resets 10,000.
func TestResets(t *testing.T) {
	const connections, resets = 8, 125
	g := newGateway(newFakeUpstream(t, fakecodex.Options{Default: "text"}), Options{MaxConcurrent: 4, MaxQueue: 4, QueueWait: time.Millisecond})
	server := newServerH2C(t, g)
	var all sync.WaitGroup
	var reset atomic.Int64
	for i := range connections {
		random := rand.New(rand.NewPCG(uint64(i), 3))
		all.Go(func() {
			client := newClientH2C()
			defer client.CloseIdleConnections()
			for range resets {
				if !answeredH2C(t, client, server.URL+chatPath, random) {
					reset.Add(1)
				}
			}
		})
	}
	all.Wait()
	if reset.Load() < connections*resets/2 {
		t.Errorf("only %d streams were reset", reset.Load())
	}
}

func newServerH2C(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// newClientH2C is a client with a connection of its own.
func newClientH2C() *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: transport}
}

// answeredH2C sends a request, of which the half has no end of its body, and resets the stream at a
// random moment. It reports whether the answer was faster.
func answeredH2C(t *testing.T, client *http.Client, url string, random *rand.Rand) bool {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	text := fmt.Sprintf(`{"model":"m","stream":%t,"messages":[{"role":"user","content":"x"}]}`, random.IntN(2) == 0)
	var body io.Reader = strings.NewReader(text)
	if random.IntN(2) == 0 {
		body = io.MultiReader(strings.NewReader(text[:random.IntN(len(text))]), silence{ctx})
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		t.Error(err)
		return false
	}
	time.AfterFunc(time.Duration(random.ExpFloat64()*float64(2*time.Millisecond)), cancel)
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil
}
