package codexrpc

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// fastServer is an app-server on two pipes that allocates nothing: it answers each call, and
// each turn is three deltas.
type fastServer struct {
	in, out *os.File
	turn    []byte // its lines
	started int
}

// dialFast makes a connection to such a server. Both end with the test.
func dialFast(t testing.TB) *Conn {
	t.Helper()
	in, toServer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromServer, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	lines := benchTurnLines()
	lines = append(lines[:2:2], append([]string{benchDelta("hello"), benchDelta(", and"), benchDelta(" so on")}, lines[2:]...)...)
	s := &fastServer{in: in, out: out, turn: []byte(strings.Join(lines, "\n") + "\n")}
	c := NewConn(NewStdio(fromServer, toServer), nil)
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.serve()
	}()
	t.Cleanup(func() {
		_ = c.Close()
		<-served
	})
	return c
}

// serve answers the calls until the client closes its pipe.
func (s *fastServer) serve() {
	defer s.out.Close()
	defer s.in.Close()
	r := bufio.NewReaderSize(s.in, 64<<10)
	var answer []byte
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		id := line[len(`{"id":`):bytes.IndexByte(line, ',')]
		answer = append(append(append(answer[:0], `{"id":`...), id...), `,"result":{`...)
		switch {
		case bytes.Contains(line, []byte(methodThreadStart)):
			s.started++
			answer = s.appendThread(append(answer, `"thread":{"id":"`...), s.started)
			answer = append(answer, `"}`...)
		case bytes.Contains(line, []byte(methodTurnStart)):
			answer = append(answer, `"turn":{"id":"`+benchTurn+`","items":[],"status":"inProgress","error":null}`...)
		}
		answer = append(answer, "}}\n"...)
		if bytes.Contains(line, []byte(methodTurnStart)) {
			from := len(answer)
			answer = append(answer, s.turn...)
			thread := line[bytes.Index(line, []byte(`"threadId":"`))+len(`"threadId":"`):][:len(benchThread)]
			for rest := answer[from:]; ; {
				at := bytes.Index(rest, []byte(`"threadId":"`))
				if at < 0 {
					break
				}
				rest = rest[at+len(`"threadId":"`):]
				copy(rest, thread)
			}
		}
		if _, err := s.out.Write(answer); err != nil {
			return
		}
	}
}

// appendThread appends the id of a thread, which is as long as benchThread.
func (s *fastServer) appendThread(to []byte, n int) []byte {
	digits := strconv.AppendInt(make([]byte, 0, 20), 1e9+int64(n), 10)
	return append(append(to, benchThread[:len(benchThread)-len(digits)]...), digits...)
}

// runShortTurn runs a turn on a thread of its own.
func runShortTurn(ctx context.Context, c *Conn, params ThreadStartParams, closed func()) error {
	thread, err := c.StartThread(ctx, params)
	if err != nil {
		return err
	}
	defer thread.Close(closed)
	if err := thread.StartTurn(ctx, TurnStartParams{Input: []UserInput{{Type: "text", Text: "Say hello."}}}); err != nil {
		return err
	}
	text := 0
	for {
		<-thread.Ready()
		events, err := thread.Recv()
		if err != nil {
			return err
		}
		for i := range events {
			switch events[i].Kind {
			case EventTextDelta:
				text += len(events[i].Text)
			case EventTurnCompleted:
				if text != len("hello, and so on") {
					return fmt.Errorf("%d bytes of text: %w", text, io.ErrUnexpectedEOF)
				}
				return nil
			}
		}
	}
}

func shortTurnParams() ThreadStartParams {
	instructions := "You are a helpful assistant."
	return ThreadStartParams{Model: "gpt-5", BaseInstructions: &instructions, Environments: []struct{}{}, Config: Config{Fixed: `"limit":1`}}
}

// TestTurnAllocations bounds what this package allocates for a request: the thread and its
// parts, the parameters, and the texts and counts that are passed on.
func TestTurnAllocations(t *testing.T) {
	c := dialFast(t)
	params := shortTurnParams()
	n := testing.AllocsPerRun(500, func() {
		if err := runShortTurn(t.Context(), c, params, nil); err != nil {
			t.Fatal(err)
		}
	})
	if n > 18 {
		t.Errorf("%v allocations for a turn, want %d at most", n, 18)
	}
}

// BenchmarkTurn measures a short turn on a thread of its own: all that this package does for
// a request.
func BenchmarkTurn(b *testing.B) {
	c := dialFast(b)
	params := shortTurnParams()
	b.ReportAllocs()
	for b.Loop() {
		if err := runShortTurn(b.Context(), c, params, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// countedWrites counts the quick writes of a connection.
type countedWrites struct {
	immediate
	n atomic.Int64
}

func (w *countedWrites) TryWrite(message []byte) (written bool, err error) {
	w.n.Add(1)
	return w.immediate.TryWrite(message)
}

// BenchmarkTurnsTogether measures short turns of eight callers, with the writes of each.
func BenchmarkTurnsTogether(b *testing.B) {
	c := dialFast(b)
	params := shortTurnParams()
	writes := &countedWrites{immediate: c.quick}
	c.quick = writes
	b.SetParallelism(max(1, 8/runtime.GOMAXPROCS(0)))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := runShortTurn(b.Context(), c, params, nil); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(writes.n.Load())/float64(b.N), "writes/op")
}
