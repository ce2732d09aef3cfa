package codexrpc

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
)

// newTestConn is a connection without goroutines; the test calls what the reader does.
func newTestConn() *Conn {
	return &Conn{
		logger:  func() *slog.Logger { return slog.New(slog.DiscardHandler) },
		out:     outbox{replies: make(chan []byte, maxReplies)},
		calls:   newCallTable(),
		done:    make(chan struct{}),
		threads: make(map[string]*Thread),
	}
}

// openTestTurn adds a thread with a turn to a connection without goroutines.
func openTestTurn(c *Conn, id, turn string) *Thread {
	t := openTestThread(c, id)
	t.setTurnID(turn)
	return t
}

// openTestThread adds a thread whose turn has been sent to a connection without goroutines.
func openTestThread(c *Conn, id string) *Thread {
	t := &Thread{id: id, conn: c}
	t.queue.init(&c.in.wakeList)
	c.addThread(t)
	(*startingTurn)(t).onSent()
	return t
}

func TestIsEcho(t *testing.T) {
	long := strings.Repeat("x", minEchoSize)
	item := func(method, turn, kind string) string {
		return fmt.Sprintf(`{"method":%q,"params":{"threadId":"thr-1","turnId":%q,"item":{"type":"%s","text":%q}}}`, method, turn, kind, long)
	}
	c := newTestConn()
	openTestTurn(c, "thr-1", "trn-1")
	for line, want := range map[string]bool{
		item(methodRawItemCompleted, "auto-compact-0", "message"):                     true,
		item(methodRawItemCompleted, "auto-compact-0", "function_call_output"):        true,
		item(methodRawItemCompleted, "auto-compact-0", "function_call"):               true,
		item(methodRawItemCompleted, "trn-1", "function_call"):                        false,
		item(methodRawItemCompleted, "trn-1", `message","role":"user`):                true,
		item(methodRawItemCompleted, "trn-1", `message","role":"developer`):           true,
		item(methodRawItemCompleted, "trn-1", `message","role":"assistant`):           false, // may have annotations
		item(methodRawItemCompleted, "trn-1", "reasoning"):                            false,
		item(methodRawItemCompleted, "trn-1", "custom_tool_call"):                     false,
		item(methodRawItemCompleted, "trn-1", "additional_tools"):                     false,
		item(methodRawItemCompleted, "trn-1", "function_call_output"):                 false,
		item(methodRawItemCompleted, "auto-compact-0", "reasoning"):                   true,
		item(methodRawItemCompleted, "auto-compact-0", `message","role":"assistant`):  true,
		item(methodItemStarted, "trn-1", "userMessage"):                               true,
		item(methodItemCompleted, "trn-1", "userMessage"):                             true,
		item(methodItemCompleted, "trn-1", "agentMessage"):                            false,
		item(methodTextDelta, "trn-1", ""):                                            false,
		`{"id":1,"result":"` + long + `"}`:                                            false,
		long:                                                                          false,
		`{"method":"rawResponseItem/completed","params":{"item":{"type":"message"}}}`: false, // too short to look at
	} {
		if got := c.isEcho([]byte(line)); got != want {
			t.Errorf("%.120s…: %t", line, got)
		}
	}
	other := strings.Replace(item(methodRawItemCompleted, "trn-1", "function_call"), "thr-1", "thr-9", 1)
	if !c.isEcho([]byte(other)) {
		t.Error("a call on a thread that is not ours is worth a copy")
	}
}

// TestEchoIsNotCopied checks that echoed history costs no memory in proportion to its
// size.
func TestEchoIsNotCopied(t *testing.T) {
	c := newTestConn()
	thread := openTestTurn(c, "thr-1", "trn-1")
	for _, kind := range []string{"message", "function_call", "function_call_output"} {
		line := fmt.Appendf(nil, `{"method":"rawResponseItem/completed","params":{"threadId":"thr-1","turnId":"auto-compact-0","item":{"type":%q,"text":"%s"}}}`,
			kind, strings.Repeat("x", 1<<20))
		const rounds = 3
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			c.dispatch(line)
		}
		runtime.ReadMemStats(&after)
		if bytes := (after.TotalAlloc - before.TotalAlloc) / rounds; bytes > 64<<10 {
			t.Errorf("%s: %d bytes are allocated for an echo", kind, bytes)
		}
	}
	if events, err := thread.Recv(); len(events) != 0 || err != nil {
		t.Errorf("took %d events (%v)", len(events), err)
	}
}

// TestEchoedCallsDoNotFillTheQueue checks that echoed function calls are dropped even
// before the turn's id is known.
func TestEchoedCallsDoNotFillTheQueue(t *testing.T) {
	c := newTestConn()
	thread := openTestThread(c, "thr-1")
	for _, size := range []int{100, minEchoSize} {
		line := fmt.Appendf(nil, `{"method":"rawResponseItem/completed","params":{"threadId":"thr-1","turnId":"auto-compact-0","item":{"type":"function_call","arguments":"%s"}}}`,
			strings.Repeat("x", size))
		for range 100 {
			c.dispatch(line)
		}
	}
	if thread.queue.bytes != 0 {
		t.Errorf("%d bytes are queued", thread.queue.bytes)
	}
}

// TestOnInput checks that a thread says once that Codex has read its input, whether that comes back
// as a short line or as a long one, and where in it the ids are.
func TestOnInput(t *testing.T) {
	for name, line := range map[string]string{
		"short":             `{"method":"item/started","params":{"item":{"type":"userMessage","id":"i","content":[]},"threadId":"thr-1","turnId":"trn-1"}}`,
		"long":              `{"method":"item/started","params":{"item":{"type":"userMessage","text":"` + strings.Repeat(`\"threadId\":\"thr-2\"`, minEchoSize) + `"},"threadId":"thr-1","turnId":"trn-1"}}`,
		"long, ids before":  `{"method":"item/started","params":{"threadId":"thr-1","turnId":"trn-1","item":{"type":"userMessage","text":"` + strings.Repeat("x", minEchoSize) + `"}}}`,
		"short, ids before": `{"method":"item/started","params":{"threadId":"thr-1","turnId":"trn-1","item":{"type":"userMessage","id":"i"}}}`,
	} {
		c := newTestConn()
		one, other := openTestTurn(c, "thr-1", "trn-1"), openTestTurn(c, "thr-2", "trn-2")
		read := 0
		one.OnInput(func() { read++ })
		other.OnInput(func() { t.Errorf("%s: the input of another thread", name) })
		c.dispatch([]byte(strings.Replace(line, "userMessage", "agentMessage", 1)))
		if read > 0 {
			t.Errorf("%s: the model's message is the input", name)
		}
		for range 2 {
			c.dispatch([]byte(line))
			c.dispatch([]byte(strings.Replace(line, "thr-1", "thr-9", 1)))
		}
		if read != 1 {
			t.Errorf("%s: %d times", name, read)
		}
	}
}

// TestOnInputWithoutInput checks that a turn without input has read it when its start is answered,
// since the history is read before, and that results are read when all calls have their output.
func TestOnInputWithoutInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dial(t)
		thread := openThread(t, c, p, "thr-1")
		read := 0
		thread.OnInput(func() { read++ })
		started := async(func() error { return thread.StartTurn(t.Context(), TurnStartParams{}) })
		call := p.expect(methodTurnStart)
		if read != 0 {
			t.Error("it is read before the answer")
		}
		p.answer(call, `{"turn":{"id":"trn-1"}}`)
		if err := <-started; err != nil || read != 1 {
			t.Errorf("%v, read %d times", err, read)
		}
		for id, name := range []string{"a", "b"} {
			p.say(`{"id":%d,"method":"item/tool/call","params":{"threadId":"thr-1","turnId":"trn-1","callId":%q,"tool":"f","arguments":{}}}`, id, name)
		}
		synctest.Wait()
		thread.OnInput(func() { read++ })
		answered := async(func() error { return thread.AnswerCalls(t.Context(), []ToolResult{{CallID: "a"}, {CallID: "b"}}) })
		p.hear()
		p.hear()
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
		for want := 1; want <= 2; want++ {
			p.say(`{"method":"rawResponseItem/completed","params":{"threadId":"thr-1","turnId":"trn-1","item":{"type":"function_call_output","call_id":"a","output":"x"}}}`)
			synctest.Wait()
			if read != want {
				t.Errorf("after output %d: read %d times", want, read)
			}
		}
	})
}
