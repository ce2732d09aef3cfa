package codexrpc

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

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
