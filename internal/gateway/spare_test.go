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

	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/threads"
)

// refusing plays recordings, but refuses the first call of a method in each thread that was
// started before its request: after the first two threads.
func refusing(t *testing.T, method string) func(in io.Reader, out io.Writer) {
	play := playing(transcripts(t), fakecodex.Options{Default: "text"})
	return func(in io.Reader, out io.Writer) {
		passed, pass := io.Pipe()
		var writing sync.Mutex
		var filter sync.WaitGroup
		filter.Go(func() {
			lines, calls := bufio.NewScanner(in), 0
			for lines.Scan() {
				call := callHead.FindStringSubmatch(lines.Text())
				if call != nil && call[2] == method {
					if calls++; calls == 3 {
						writing.Lock()
						fmt.Fprintf(out, `{"id":%s,"error":{"code":-32600,"message":"thread not found"}}`+"\n", call[1])
						writing.Unlock()
						continue
					}
				}
				if _, err := fmt.Fprintln(pass, lines.Text()); err != nil {
					break
				}
			}
			_ = pass.Close()
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
			u := newServedUpstream(t, refusing(t, method))
			limits := conversation.Limits{Max: 10, MaxBytes: 1 << 20, Idle: time.Hour, Spares: 1}
			u.conversations = threads.NewConversations(limits, conversation.NewMemory(1<<10), func() bool { return false })
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
