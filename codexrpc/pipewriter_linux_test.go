package codexrpc

import (
	"bufio"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// TestTryWrite checks that a pipe takes small messages at once, as long as it has room.
func TestTryWrite(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := NewStdio(from, to)
	defer s.Close()
	if err := s.Write([]byte("slow"), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Millisecond) // the deadline of that write does not last
	if written, err := s.TryWrite(make([]byte, atomicWrite)); written || err != nil {
		t.Errorf("a long message: %t, %v", written, err)
	}
	message := []byte(strings.Repeat("x", atomicWrite-1))
	sent := 0
	for written := true; written; sent++ {
		if written, err = s.TryWrite(message); err != nil {
			t.Fatal(err)
		}
	}
	if sent < 2 {
		t.Fatal("the pipe took nothing")
	}
	r := bufio.NewReader(from)
	for i := range sent {
		line, err := r.ReadString('\n')
		if want := len(message) + 1; err != nil || i > 0 && len(line) != want {
			t.Fatalf("line %d has %d bytes: %v", i, len(line), err)
		}
		if i == sent-1 {
			break
		}
	}
	if written, err := s.TryWrite([]byte("y")); !written || err != nil {
		t.Errorf("with room again: %t, %v", written, err)
	}
	_ = from.Close()
	if written, err := s.TryWrite([]byte("y")); written || err == nil {
		t.Errorf("without a reader: %t, %v", written, err)
	}
	_ = to.Close()
	if written, err := s.TryWrite([]byte("y")); written || err == nil {
		t.Errorf("after the end: %t, %v", written, err)
	}
}

// TestTryWriteElsewhere checks that what is no pipe gets its messages from the writer.
func TestTryWriteElsewhere(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, pipe := io.Pipe()
	for _, w := range []io.WriteCloser{file, pipe} {
		if written, err := NewStdio(io.NopCloser(strings.NewReader("")), w).TryWrite([]byte("x")); written || err != nil {
			t.Errorf("%T: %t, %v", w, written, err)
		}
	}
}
