package codexrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/logbook"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// A request of the server's may have the id of a call of the client's.
func TestIDSpacesAreSeparate(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		done := async(func() error { return errOf(c.Account(t.Context())) })
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
		must.OK(t, <-done)
	})
}

// A reply has the request's id byte for byte, be it a number or a string.
func TestServerIDsAreEchoedVerbatim(t *testing.T) {
	withPeer(t, func(t *testing.T, _ *Conn, p *peer) {
		for _, id := range []string{`0`, `-7`, `9007199254740993`, `1e3`, `"0"`, `"a \"quoted\" id ☃"`, `""`} {
			p.say(`{"id":%s,"method":"item/commandExecution/requestApproval","params":{}}`, id)
			if h := p.hear(); string(h.ID) != id {
				t.Errorf("id %s was answered as %s", id, h.ID)
			}
		}
	})
}

// TestRequestsAreAnswered checks that every request for an approval is declined, and the time told.
func TestRequestsAreAnswered(t *testing.T) {
	withPeer(t, func(t *testing.T, _ *Conn, p *peer) {
		for method, want := range map[string]string{
			"applyPatchApproval":                    `{"decision":"abort"}`,
			"execCommandApproval":                   `{"decision":"abort"}`,
			"item/commandExecution/requestApproval": `{"decision":"decline"}`,
			"item/fileChange/requestApproval":       `{"decision":"decline"}`,
			"item/permissions/requestApproval":      `{"permissions":{},"scope":"turn"}`,
			"item/tool/requestUserInput":            `{"answers":{}}`,
			"mcpServer/elicitation/request":         `{"_meta":null,"action":"decline","content":null}`,
			"item/tool/call":                        `{"contentItems":[],"success":false}`,
			"currentTime/read":                      fmt.Sprintf(`{"currentTimeAt":%d}`, time.Now().Unix()),
		} {
			p.say(`{"id":0,"method":%q,"params":{"threadId":"nobody's","turnId":"t"}}`, method)
			if h := p.hear(); string(h.Result) != want || h.Error != nil {
				t.Errorf("%s: answered %s (%v), want %s", method, h.Result, h.Error, want)
			}
		}
	})
}

// TestHooks checks that a program can answer requests itself, also those that this package does not
// know, and that it gets the notifications that are no events of a thread.
func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, notified := newPeer(t), []string(nil)
		c := NewConn(p, Options{
			Answer: func(method string, params json.RawMessage) any {
				if method == "currentTime/read" || string(params) == `{"command":"rm"}` {
					return nil
				}
				return map[string]string{"decision": "accept", "for": method}
			},
			Notified: func(method string, params json.RawMessage) { notified = append(notified, method, string(params)) },
		})
		t.Cleanup(func() { _ = c.Close() })
		for request, want := range map[string]string{
			`"method":"item/fileChange/requestApproval","params":{}`:                    `{"decision":"accept","for":"item/fileChange/requestApproval"}`,
			`"method":"item/fileChange/requestApproval","params":{"command":"rm"}`:      `{"decision":"decline"}`,
			`"method":"future/request","params":{}`:                                     `{"decision":"accept","for":"future/request"}`,
			`"method":"item/tool/call","params":{"threadId":"nobody's","callId":"one"}`: `{"contentItems":[],"success":false}`,
		} {
			p.say(`{"id":0,%s}`, request)
			if h := p.hear(); string(h.Result) != want {
				t.Errorf("%s: answered %s, want %s", request, h.Result, want)
			}
		}
		p.notify("account/updated", `{"a":1}`)
		p.notify("future/notification", `{"b":2}`)
		p.delta("nobody's", "t", "text")
		synctest.Wait()
		if !slices.Equal(notified, []string{"account/updated", `{"a":1}`, "future/notification", `{"b":2}`}) || c.LoginChanges() != 1 {
			t.Errorf("notified of %s", notified)
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

// The end of the transport ends every call and turn, with its reason.
func TestEndOfTransport(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		thread := openTurn(t, c, p, "thr-1", "trn-1")
		call := async(func() error { return errOf(c.Models(t.Context())) })
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

// The write timeout ends the connection to an app-server that does not read its input.
func TestStuckInputEndsTheConnection(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, _ *peer) { // nobody hears
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
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		thread := openTurn(t, c, p, "thr-1", "trn-1")
		if n := c.Threads(); n != 1 {
			t.Errorf("%d threads", n)
		}
		if err := c.Err(); err != nil {
			t.Errorf("before the end there is %v", err)
		}
		must.OK(t, c.Close())
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
		log := new(logbook.Book)
		c := NewConn(p, Options{Logger: log.Logger})
		<-c.Done()
		if got := log.String(); strings.Count(got, "skipped a message") != 1 {
			t.Errorf("logged %s", got)
		}
		must.OK(t, c.Close())
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

// The id of a request, which the reply repeats, has a bound, and of a call, which is kept.
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

// TestTooLargeMessageEndsItsTurn checks that a turn ends with an error if a message was skipped
// that may have been a part of its answer, and that no other turn does.
func TestTooLargeMessageEndsItsTurn(t *testing.T) {
	const own = `"threadId":"thr-1","turnId":"trn-1"`
	const other = `"threadId":"thr-1","turnId":"trn-0"`
	const strange = `"threadId":"thr-2","turnId":"trn-1"`
	long := strings.Repeat("x", 3*readBuffer)
	for name, test := range map[string]struct {
		line string
		ends bool
	}{
		"delta":                   {`{"method":"item/agentMessage/delta","params":{` + own + `,"itemId":"i","delta":"` + long + `"}}`, true},
		"delta that quotes ids":   {`{"method":"item/agentMessage/delta","params":{` + own + `,"itemId":"i","delta":"` + long + strings.ReplaceAll(strange, `"`, `\"`) + `"}}`, true},
		"delta of another turn":   {`{"method":"item/agentMessage/delta","params":{` + other + `,"itemId":"i","delta":"` + long + `"}}`, false},
		"delta of another thread": {`{"method":"item/agentMessage/delta","params":{` + strange + `,"itemId":"i","delta":"` + long + `"}}`, false},
		"item":                    {`{"method":"item/completed","params":{"item":{"type":"agentMessage","id":"i","text":"` + long + `"},` + own + `},"emittedAtMs":1}`, true},
		"item with ids":           {`{"method":"item/completed","params":{"item":{"type":"dynamicToolCall","arguments":{` + strange + `,"text":"` + long + `"}},` + own + `}}`, true},
		"message of the user":     {`{"method":"item/completed","params":{"item":{"type":"userMessage","content":[{"type":"text","text":"` + long + `"}]},` + own + `}}`, false},
		"raw message":             {`{"method":"rawResponseItem/completed","params":{` + own + `,"item":{"type":"message","role":"user","content":"` + long + `"}}}`, false},
		"raw call":                {`{"method":"rawResponseItem/completed","params":{` + own + `,"item":{"type":"function_call","arguments":"` + long + `"}}}`, true},
		"raw call with ids":       {`{"method":"rawResponseItem/completed","params":{` + own + `,"item":{"type":"function_call","more":{` + strange + `},"arguments":"` + long + `"}}}`, true},
		"raw call of a history":   {`{"method":"rawResponseItem/completed","params":{` + other + `,"item":{"type":"function_call","arguments":"` + long + `"}}}`, false},
		"no ids":                  {`{"result":"` + long + `"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestConn()
			thread := openTestTurn(c, "thr-1", "trn-1")
			s := NewStdio(io.NopCloser(strings.NewReader(test.line+"\n{}\n")), nil)
			s.limit = 100_000
			_, err := s.Read()
			if !errors.Is(err, ErrMessageTooLarge) {
				t.Fatal(err)
			}
			c.handleTooLarge(err)
			if _, err := thread.Recv(); errors.Is(err, ErrMessageTooLarge) != test.ends || (err == nil) == test.ends {
				t.Errorf("the turn's error is %v", err)
			}
			if next, err := s.Read(); string(next) != "{}" || err != nil {
				t.Errorf("next %q, %v", next, err)
			}
		})
	}
}

const (
	benchThread = "01a1fd37-9b4a-7711-a5b7-52fbdb4ffaaa"
	benchTurn   = "01a1fd37-9b5d-7ce3-b4e5-c70d3e2e4ed4"
)

func benchDelta(text string) string {
	return fmt.Sprintf(`{"method":"item/agentMessage/delta","params":{"threadId":%q,"turnId":%q,"itemId":"msg_1795249642397786050","delta":%q},"emittedAtMs":1795249642401}`,
		benchThread, benchTurn, text)
}

// benchTurnLines returns what a short turn sends beside its deltas, which come after the
// second line.
func benchTurnLines() (lines []string) {
	const ids = `"threadId":"` + benchThread + `","turnId":"` + benchTurn + `"`
	const usage = `{"totalTokens":20,"inputTokens":10,"cachedInputTokens":0,"outputTokens":10,"reasoningOutputTokens":0}`
	item := func(more string) string {
		return `"item":{"type":"agentMessage","id":"msg_1795249642397786050",` + more + `,"phase":null},` + ids
	}
	turn := func(status string) string {
		return `"threadId":"` + benchThread + `","turn":{"id":"` + benchTurn + `","items":[],"status":"` + status + `","error":null}`
	}
	for _, event := range []struct{ method, params string }{
		{methodTurnStarted, turn("inProgress")},
		{methodItemStarted, item(`"text":""`)},
		{methodItemCompleted, item(`"text":"hello, and so on"`)},
		{methodRawItemCompleted, ids + `,"item":{"type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"hello, and so on","annotations":[]}]}`},
		{methodTokenUsage, ids + `,"tokenUsage":{"total":` + usage + `,"last":` + usage + `}`},
		{methodResponseCompleted, ids + `,"responseId":"resp-1","usage":` + usage},
		{methodTurnCompleted, turn("completed")},
	} {
		lines = append(lines, fmt.Sprintf(`{"method":%q,"params":{%s},"emittedAtMs":1795249642401}`, event.method, event.params))
	}
	return lines
}

type source struct {
	text string
	at   int
}

func (s *source) Read(b []byte) (int, error) {
	n := copy(b, s.text[s.at:])
	s.at = (s.at + n) % len(s.text)
	return n, nil
}

// BenchmarkReader reads deltas of sixteen threads from a stream of bytes.
func BenchmarkReader(b *testing.B) {
	c := newTestConn()
	var threads []*Thread
	var stream strings.Builder
	for i := range 16 {
		id := fmt.Sprintf("%s-%02d", benchThread, i)
		threads = append(threads, openTestTurn(c, id, benchTurn))
		stream.WriteString(strings.ReplaceAll(benchDelta("some text"), benchThread, id) + "\n")
	}
	transport := NewStdio(io.NopCloser(&source{text: stream.String()}), nil)
	b.ReportAllocs()
	b.SetBytes(int64(stream.Len() / len(threads)))
	for n := 0; b.Loop(); n++ {
		line, err := transport.Read()
		if err != nil {
			b.Fatal(err)
		}
		c.dispatch(line)
		if n%256 == 0 {
			for _, t := range threads {
				_, _ = t.Recv()
			}
		}
	}
}

// FuzzDispatch passes any line to the reader. It must not panic or block, and its
// replies must be lines of JSON. Only JSON objects may count as messages.
func FuzzDispatch(f *testing.F) {
	for _, line := range []string{
		`{"id":1,"result":{"thread":{"id":"thr-2"}}}`,
		`{"id":1,"error":{"code":-32001,"message":"later","data":[]}}`,
		`{"id":"s","method":"item/tool/call","params":{"threadId":"thr-1"}}`,
		`{"id":0,"method":"future/thing"}`,
		`{"method":"item/agentMessage/delta","params":{"threadId":"thr-1","turnId":"trn-1","itemId":"m","delta":"é"}}`,
		`{"method":"item/reasoning/summaryTextDelta","params":{"threadId":"thr-1","turnId":"trn-1","summaryIndex":1e99}}`,
		`{"method":"rawResponseItem/completed","params":{"threadId":"thr-1","turnId":"trn-1","item":{"type":"function_call","arguments":"{}"}}}`,
		`{"method":"error","params":{"threadId":"thr-1","turnId":"trn-1","error":{"codexErrorInfo":{"a":{"httpStatusCode":1}}}}}`,
		`{"method":"turn/completed","params":{"threadId":"thr-1","turn":{"id":"trn-1","status":"failed","error":{}}}}`,
		`{"method":"thread/tokenUsage/updated","params":{"threadId":"thr-1","turnId":"trn-1","tokenUsage":{"total":{"totalTokens":-1}}}}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		c := newTestConn()
		thread := openTestTurn(c, "thr-1", "trn-1")
		waiting := &pendingCall{outcome: make(chan error, 1)}
		c.calls.registered[1] = waiting
		c.dispatch(line)
		if _, err := parseMessage(line, new(Event)); err == nil && !isObject(line) {
			t.Errorf("%q was taken for a message", line)
		}
		for len(c.out.replies) > 0 {
			answer := <-c.out.replies
			if !isObject(answer) || strings.Contains(string(answer), "\n") {
				t.Errorf("%q was answered with %q", line, answer)
			}
		}
		events, err := thread.Recv()
		if err != nil {
			t.Errorf("%q ended the turn: %v", line, err)
		}
		for _, e := range events {
			if e.Kind == "" || e.Kind == eventRawItem || e.Kind == eventWarning || e.Kind == eventTurnStarted || e.threadID != "thr-1" || e.turnID != "trn-1" {
				t.Errorf("%q made %+v", line, e)
			}
		}
	})
}

func isObject(line []byte) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(line, &object) == nil && object != nil
}

// FuzzStdio checks that messages are the stream's lines, however reads cut it.
func FuzzStdio(f *testing.F) {
	f.Add([]byte("{\"a\":1}\n{\"b\":2}\r\n\n{\"cut"), uint8(3))
	f.Add([]byte("\n \n\x00\nx"), uint8(1))
	f.Fuzz(func(t *testing.T, stream []byte, most uint8) {
		got := chunked(t, stream, int(most)+1)
		var want []string
		for line := range strings.SplitSeq(string(stream), "\n") {
			if trimmed := strings.TrimSpace(line); trimmed != "" {
				want = append(want, trimmed)
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("read %q, want %q", got, want)
		}
	})
}
