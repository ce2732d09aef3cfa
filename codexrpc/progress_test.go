package codexrpc

import (
	"io"
	"testing"
	"time"
)

// TestProgressOfPipes checks that writes count as progress only when the peer must
// have read, and reads also within a message.
func TestProgressOfPipes(t *testing.T) {
	r, toChild := pipe(t)
	fromChild, w := pipe(t)
	s := NewStdio(fromChild, toChild)
	if err := s.Write(make([]byte, 1000), patience); err != nil || s.Progress() != 0 {
		t.Errorf("a small message (%v) made it %d", err, s.Progress())
	}
	if err := s.Write(make([]byte, 4*maxWritePart), time.Millisecond); err == nil || s.Progress() != 0 {
		t.Errorf("a large one that nobody reads (%v) made it %d", err, s.Progress())
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if err := s.Write(make([]byte, 4*maxWritePart), patience); err != nil || s.Progress() != 4 {
		t.Errorf("one that is read (%v) made it %d", err, s.Progress())
	}
	if _, err := w.WriteString(`{"half":`); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = s.Read() }() // until the pipe's end
	for end := time.Now().Add(patience); s.Progress() != 5; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("half a message made it %d", s.Progress())
		}
	}
}
