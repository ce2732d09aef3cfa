package codexrpc

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestIDSpacesAreSeparate checks that a request of the server's may have the id of a
// call of the client's.
func TestIDSpacesAreSeparate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dial(t)
		done := async(func() error {
			_, err := c.Account(t.Context())
			return err
		})
		call := p.expect(methodAccountRead)
		p.say(`{"id":%s,"method":"item/fileChange/requestApproval","params":{}}`, call.ID)
		if h := p.hear(); string(h.ID) != string(call.ID) || h.Result == nil {
			t.Errorf("answered %+v", h)
		}
		select {
		case err := <-done:
			t.Fatalf("the call ended with %v at a request of the server's", err)
		default:
		}
		p.answer(call, `{"account":null,"requiresOpenaiAuth":false}`)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestServerIDsAreEchoedVerbatim checks that a reply has the request's id byte for
// byte, be it a number or a string.
func TestServerIDsAreEchoedVerbatim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := dial(t)
		for _, id := range []string{`0`, `-7`, `9007199254740993`, `1e3`, `"0"`, `"a \"quoted\" id ☃"`, `""`} {
			p.say(`{"id":%s,"method":"item/commandExecution/requestApproval","params":{}}`, id)
			if h := p.hear(); string(h.ID) != id {
				t.Errorf("id %s was answered as %s", id, h.ID)
			}
		}
	})
}

// TestApprovalsAreRefused checks that every request for an approval is declined.
func TestApprovalsAreRefused(t *testing.T) {
	for method, want := range map[string]string{
		"applyPatchApproval":                    `{"decision":"abort"}`,
		"execCommandApproval":                   `{"decision":"abort"}`,
		"item/commandExecution/requestApproval": `{"decision":"decline"}`,
		"item/fileChange/requestApproval":       `{"decision":"decline"}`,
		"item/permissions/requestApproval":      `{"permissions":{},"scope":"turn"}`,
		"item/tool/requestUserInput":            `{"answers":{}}`,
		"mcpServer/elicitation/request":         `{"_meta":null,"action":"decline","content":null}`,
		"item/tool/call":                        `{"contentItems":[],"success":false}`,
	} {
		t.Run(strings.ReplaceAll(method, "/", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, p := dial(t)
				p.say(`{"id":0,"method":%q,"params":{"threadId":"nobody's","turnId":"t"}}`, method)
				if h := p.hear(); string(h.Result) != want || h.Error != nil {
					t.Errorf("answered %s (%v), want %s", h.Result, h.Error, want)
				}
			})
		})
	}
}

func TestCurrentTimeIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := dial(t)
		p.say(`{"id":0,"method":"currentTime/read","params":{"threadId":"a"}}`)
		var result struct {
			CurrentTimeAt int64 `json:"currentTimeAt"`
		}
		if err := json.Unmarshal(p.hear().Result, &result); err != nil || result.CurrentTimeAt != time.Now().Unix() {
			t.Errorf("told %d (%v), want %d", result.CurrentTimeAt, err, time.Now().Unix())
		}
	})
}

func TestUnknownServerRequestIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, log := dialLogged(t)
		p.say(`{"id":"x","method":"future/request","params":{}}`)
		if h := p.hear(); h.Error == nil || h.Error.Code != codeMethodNotFound || string(h.ID) != `"x"` {
			t.Errorf("answered %+v", h)
		}
		if got := log.String(); strings.Count(got, "kind=request method=future/request") != 1 {
			t.Errorf("logged %s", got)
		}
	})
}

// TestOddLinesAreLogged checks that unknown messages are logged and the connection goes on.
func TestOddLinesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p, log := dialLogged(t)
		thread := openTurn(t, c, p, "thr-1", "trn-1")
		for _, garbage := range []string{
			"codex: starting up", "{", `{"method":`, "null", "17", `"text"`, "[]", "{}", `[{"method":"error"}]`,
			`{"id":{},"result":{}}`, `{"id":null,"result":{}}`, `{"method":5}`, "\x00\xff\xfe", `{"id":1}}`,
		} {
			p.say("%s", garbage)
		}
		p.notify("thread/future/thing", `{"threadId":"thr-1"}`)
		p.notify("thread/started", `{"thread":{"id":"thr-1"}}`)
		p.notify("warning", `{"threadId":"thr-1","message":"known and of no use"}`)
		p.notify("warning", `"not even an object"`)
		p.say(`{"id":4711,"result":{}}`)
		p.say(`{"id":"1","result":{}}`)
		p.say(`{"id":4712,"error":{"code":-32600,"message":"of no call"}}`)
		p.delta("nobody's", "trn-1", "lost")
		p.delta("thr-1", "trn-1", "kept")
		if got := texts(t, thread); got != "kept" {
			t.Errorf("took %q", got)
		}
		logged := log.String()
		for line, want := range map[string]int{"unreadable line": 14, "kind=notification": 2, "kind=answer": 3, "\n": 19} {
			if n := strings.Count(logged, line); n != want {
				t.Errorf("%q was logged %d times, want %d", line, n, want)
			}
		}
	})
}

// TestFallbackReachesTheTurn checks that the warning of a retry over HTTP, which names
// no turn, reaches the thread's turn.
func TestFallbackReachesTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dial(t)
		thread := openTurn(t, c, p, "thr-1", "trn-1")
		p.notify("warning", `{"threadId":"thr-1","message":"Falling back from WebSockets to HTTPS transport. why"}`)
		synctest.Wait()
		events, err := thread.Recv()
		if err != nil || len(events) != 1 || !events[0].WillRetry || events[0].Err.Message != "why" {
			t.Errorf("took %+v, %v", events, err)
		}
	})
}

// TestEndOfTransport checks that the end of the transport ends every call and turn,
// with its reason.
func TestEndOfTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dial(t)
		thread := openTurn(t, c, p, "thr-1", "trn-1")
		call := async(func() error {
			_, err := c.Models(t.Context())
			return err
		})
		p.expect(methodModelList)
		p.delta("thr-1", "trn-1", "the last")
		close(p.toClient)
		if err := <-call; !errors.Is(err, ErrClosed) {
			t.Errorf("the call ended with %v", err)
		}
		if got := texts(t, thread); got != "the last" {
			t.Errorf("took %q: what came before the end is lost", got)
		}
		if _, err := thread.Recv(); !errors.Is(err, ErrClosed) {
			t.Errorf("the turn ended with %v", err)
		}
		if _, err := c.StartThread(t.Context(), ThreadStartParams{}); !errors.Is(err, ErrClosed) {
			t.Errorf("a thread was started: %v", err)
		}
		<-c.Done()
		if err := c.Err(); !strings.Contains(err.Error(), "closed its output") {
			t.Errorf("the reason is %q", err)
		}
	})
}

// TestStuckInputEndsTheConnection checks that the write timeout ends the connection to
// an app-server that does not read its input.
func TestStuckInputEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := dial(t) // nobody hears
		begin := time.Now()
		_, err := c.Account(t.Context())
		if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrTimeout) {
			t.Errorf("the call ended with %v", err)
		}
		<-c.Done()
		if !errors.Is(c.Err(), os.ErrDeadlineExceeded) {
			t.Errorf("the connection ended with %v", c.Err())
		}
		if took := time.Since(begin); took != writeTimeout {
			t.Errorf("it took %s, want %s", took, writeTimeout)
		}
	})
}

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dial(t)
		thread := openTurn(t, c, p, "thr-1", "trn-1")
		if n := c.Threads(); n != 1 {
			t.Errorf("%d threads", n)
		}
		if err := c.Err(); err != nil {
			t.Errorf("before the end there is %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := thread.Recv(); !errors.Is(err, ErrClosed) {
			t.Errorf("the turn ended with %v", err)
		}
		if n := c.Threads(); n != 0 {
			t.Errorf("%d threads are left", n)
		}
		_ = c.Close() // again
	})
}

// skipping is a transport that skips one message and then ends.
type skipping struct {
	*peer
	skipped bool
}

func (l *skipping) Read() ([]byte, error) {
	if !l.skipped {
		l.skipped = true
		return nil, ErrMessageTooLarge
	}
	return nil, io.EOF
}

func TestTooLargeMessageIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &skipping{peer: &peer{t: t, closed: make(chan struct{})}}
		log := new(logBuffer)
		c := NewConn(p, log.logger)
		<-c.Done()
		if got := log.String(); strings.Count(got, "skipped a message") != 1 {
			t.Errorf("logged %s", got)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestRepliesThatNobodyReads checks that the connection ends when too many replies are
// queued, and that the reader does not wait for the writer.
func TestRepliesThatNobodyReads(t *testing.T) {
	c := newTestConn()
	request := []byte(`{"id":1,"method":"item/fileChange/requestApproval"}`)
	for range maxReplies + 1 {
		c.dispatch(request)
	}
	if !errors.Is(c.Err(), errNotReading) {
		t.Errorf("the connection has %v", c.Err())
	}
}

// TestLongIDs checks that the id of a request, which the reply repeats, has a bound, and
// that of a call, which is kept.
func TestLongIDs(t *testing.T) {
	c := newTestConn()
	thread := openTestTurn(c, "thr-1", "trn-1")
	for n, length := range []int{maxID, maxID + 1} {
		c.dispatch([]byte(`{"id":1,"method":"item/tool/call","params":{"threadId":"thr-1","callId":"` + strings.Repeat("x", length) + `"}}`))
		if len(c.out.replies) != n || len(thread.parked) != 1 {
			t.Errorf("a call's id of %d bytes: %d replies, %d calls are parked", length, len(c.out.replies), len(thread.parked))
		}
	}
	<-c.out.replies
	c.dispatch([]byte(`{"id":"` + strings.Repeat("x", maxID) + `","method":"item/fileChange/requestApproval"}`))
	if n := len(c.out.replies); n != 0 || c.Err() != nil {
		t.Errorf("%d replies (%v)", n, c.Err())
	}
}
