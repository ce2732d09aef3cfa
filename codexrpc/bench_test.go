package codexrpc

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

const (
	benchThread = "01a1fd37-9b4a-7711-a5b7-52fbdb4ffaaa"
	benchTurn   = "01a1fd37-9b5d-7ce3-b4e5-c70d3e2e4ed4"
)

func benchDelta(text string) string {
	return fmt.Sprintf(`{"method":"item/agentMessage/delta","params":{"threadId":%q,"turnId":%q,"itemId":"msg_1795249642397786050","delta":%q},"emittedAtMs":1795249642401}`,
		benchThread, benchTurn, text)
}

// BenchmarkDelta measures the hot path: one delta from its line to its consumer.
func BenchmarkDelta(b *testing.B) {
	c := newTestConn()
	thread := openTestTurn(c, benchThread, benchTurn)
	line := []byte(benchDelta("Grüße a"))
	b.ReportAllocs()
	b.SetBytes(int64(len(line)))
	for n := 0; b.Loop(); n++ {
		c.dispatch(line)
		if n%16 == 0 {
			_, _ = thread.Recv()
		}
	}
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

// BenchmarkEvents measures what a short turn sends beside its deltas: from the lines to the
// consumer.
func BenchmarkEvents(b *testing.B) {
	var lines [][]byte
	for _, line := range benchTurnLines() {
		lines = append(lines, []byte(line))
	}
	c := newTestConn()
	thread := openTestTurn(c, benchThread, benchTurn)
	b.ReportAllocs()
	for b.Loop() {
		for _, line := range lines {
			c.dispatch(line)
		}
		if events, _ := thread.Recv(); len(events) != 5 {
			b.Fatalf("%d events", len(events))
		}
	}
}

// source repeats a text without end.
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

// BenchmarkEcho measures how a line with echoed history is skipped.
func BenchmarkEcho(b *testing.B) {
	c := newTestConn()
	openTestTurn(c, benchThread, benchTurn)
	line := fmt.Appendf(nil, `{"method":"rawResponseItem/completed","params":{"threadId":%q,"turnId":"auto-compact-0","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"%s"}]}}}`,
		benchThread, strings.Repeat("some text ", 1<<20))
	b.ReportAllocs()
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if !c.isEcho(line) {
			b.Fatal("not an echo")
		}
	}
}

// BenchmarkInject encodes a history of 32 MB.
func BenchmarkInject(b *testing.B) {
	item := json.RawMessage(`{"type":"message","role":"user","content":[{"type":"input_text","text":"` + strings.Repeat("some text ", 1<<10) + `"}]}`)
	params := injectParams{threadID: benchThread}
	size := 0
	for size < 32<<20 {
		params.items = append(params.items, item)
		size += len(item)
	}
	b.ReportAllocs()
	b.SetBytes(int64(size))
	for b.Loop() {
		if _, err := encodeCall(nil, 1, methodThreadInject, params); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCall measures a round trip between two goroutines, without an app-server.
func BenchmarkCall(b *testing.B) {
	t := &echoTransport{calls: make(chan []byte, 1), closed: make(chan struct{})}
	c := NewConn(t, nil)
	defer c.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Account(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// echoTransport answers each call with an empty result.
type echoTransport struct {
	calls  chan []byte
	closed chan struct{}
}

func (t *echoTransport) Write(message []byte, _ time.Duration) error {
	m, err := parseMessage(message, new(Event))
	if err == nil {
		t.calls <- []byte(`{"id":` + m.id + `,"result":{}}`)
	}
	return err
}

func (t *echoTransport) Read() ([]byte, error) {
	select {
	case answer := <-t.calls:
		return answer, nil
	case <-t.closed:
		return nil, io.EOF
	}
}

func (t *echoTransport) Close() error {
	close(t.closed)
	return nil
}
