package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
)

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
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body))
		all.Go(func() {
			defer func() { _ = recover() }() // http.ErrAbortHandler, since the client leaves
			g.Chat(w, r)
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
