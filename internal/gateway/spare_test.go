package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
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

// answering plays recordings, but answers a call with what instead returns, unless that is
// empty.
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

// lockedWriter is a writer that several use.
type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// TestSpareThreadThatIsRefused checks that a request is answered on a fresh thread if the
// app-server does not take the turn, or the history, in the thread that was prepared for it.
func TestSpareThreadThatIsRefused(t *testing.T) {
	for _, method := range []string{"turn/start", "thread/inject_items"} {
		t.Run(method, func(t *testing.T) {
			u := newServedUpstream(t, answering(t, refusing(method)))
			limits := conversation.Limits{Max: 10, MaxBytes: 1 << 20, Idle: time.Hour, Spares: 1}
			u.conversations = conversation.NewThreads(limits, func() bool { return false })
			t.Cleanup(u.conversations.Close)
			g := newGateway(u, Options{MaxConcurrent: 1})
			for i := range 4 {
				answer := httptest.NewRecorder()
				body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"},{"role":"user","content":"z %d"}]}`, i)
				g.Chat(answer, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
				if answer.Code != http.StatusOK {
					t.Fatalf("%d: %d %s", i, answer.Code, answer.Body)
				}
				for until := time.Now().Add(patience); i > 0 && u.conversations.Stats().Spare == 0; time.Sleep(time.Millisecond) {
					if time.Now().After(until) {
						t.Fatalf("%d: no thread is prepared", i)
					}
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
	limits := conversation.Limits{Max: 10, MaxBytes: 1 << 20, Idle: time.Hour, Spares: 1}
	u.conversations = conversation.NewThreads(limits, func() bool { return false })
	t.Cleanup(u.conversations.Close)
	g := newGateway(u, Options{MaxConcurrent: 1})
	ask := func(messages string) string {
		t.Helper()
		answer := httptest.NewRecorder()
		g.Chat(answer, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"model":"m","messages":[`+messages+`]}`)))
		if answer.Code != http.StatusOK {
			t.Fatalf("%d %s", answer.Code, answer.Body)
		}
		return gjson.Get(answer.Body.String(), "choices.0.message").Raw
	}
	const question = `{"role":"user","content":"x"}`
	ask(question)
	message := ask(question)
	for until := time.Now().Add(patience); u.conversations.Stats().Spare == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("no thread is prepared")
		}
	}
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
	limits := conversation.Limits{Max: 10, MaxBytes: 1 << 20, Idle: time.Hour, Spares: 1}
	u.conversations = conversation.NewThreads(limits, func() bool { return false })
	t.Cleanup(u.conversations.Close)
	g := newGateway(u, Options{MaxConcurrent: 1})
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusGatewayTimeout} {
		if i == 2 {
			for until := time.Now().Add(patience); u.conversations.Stats().Spare == 0; time.Sleep(time.Millisecond) {
				if time.Now().After(until) {
					t.Fatal("no thread is prepared")
				}
			}
			g.opts.IdleTimeout = 10 * time.Millisecond
		}
		answer := httptest.NewRecorder()
		g.Chat(answer, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"x"}]}`)))
		if answer.Code != want {
			t.Errorf("%d: %d %s, want %d", i, answer.Code, answer.Body, want)
		}
	}
	if got := u.conversations.Stats(); got.Prepared != 1 {
		t.Errorf("%d requests got a spare thread", got.Prepared)
	}
}
