package codexrpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// readAll reads all messages and counts those that were too large.
func readAll(s *Stdio) (lines []string, skipped int, err error) {
	for {
		line, err := s.Read()
		switch {
		case errors.Is(err, ErrMessageTooLarge):
			skipped++
		case errors.Is(err, io.EOF):
			return lines, skipped, nil
		case err != nil:
			return lines, skipped, err
		default:
			lines = append(lines, string(line))
		}
	}
}

// pieces is a reader of text that returns pieces of all sizes up to most, the same each time.
type pieces struct {
	text []byte
	most int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := min(1+len(p.text)*40503%p.most, len(b), len(p.text))
	copy(b, p.text[:n])
	p.text = p.text[n:]
	return n, nil
}

// The messages do not depend on how reads cut the stream.
func TestAnyChunkingGivesTheSameMessages(t *testing.T) {
	var want []string
	var stream bytes.Buffer
	for i := range 200 {
		line := fmt.Sprintf(`{"n":%d,"text":"%s"}`, i, strings.Repeat("é☃😀", rand.N(40)))
		switch i {
		case 50:
			line = `{"long":"` + strings.Repeat("x", 2*readBuffer+17) + `"}`
		case 51:
			line = `{"exact":"` + strings.Repeat("y", readBuffer-len(`{"exact":""}`)-1) + `"}`
		}
		want = append(want, line)
		stream.WriteString(line)
		stream.WriteString([]string{"\n", "\r\n", "\n\n", " \n\t\n"}[rand.N(4)])
	}
	want = append(want, `{"cut`)
	stream.WriteString(`{"cut`) // the process died here
	for _, most := range []int{1, 3, 7, 100, 5000, 1 << 20} {
		r := &pieces{text: bytes.Clone(stream.Bytes()), most: most}
		got, skipped, err := readAll(NewStdio(io.NopCloser(r), nil))
		if err != nil || skipped != 0 || !slices.Equal(got, want) {
			t.Errorf("in pieces of up to %d: %d lines, %d skipped, %v; want %d", most, len(got), skipped, err, len(want))
		}
	}
}

var exes = strings.Repeat("x", readBuffer)

// endless is a reader of one long line that is never in memory as a whole.
type endless struct{ left int }

func (e *endless) Read(b []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := copy(b, exes[:min(e.left, len(exes))])
	e.left -= n
	return n, nil
}

// A line that is too long is skipped without being kept, and the next one is read.
func TestHugeLineIsSkipped(t *testing.T) {
	r := io.MultiReader(strings.NewReader("first\n"), &endless{left: 10 * maxKeptLine}, strings.NewReader("\nlast\n"))
	s := NewStdio(io.NopCloser(r), nil)
	if s.limit != MaxMessage {
		t.Errorf("the limit is %d", s.limit)
	}
	s.limit = 2 * maxKeptLine
	got, skipped, err := readAll(s)
	if err != nil || skipped != 1 || !slices.Equal(got, []string{"first", "last"}) {
		t.Errorf("read %q, skipped %d (%v)", got, skipped, err)
	}
	if cap(s.longLine) > maxKeptLine {
		t.Errorf("%d bytes are kept", cap(s.longLine))
	}
}

// What is kept of a message that is too large does not depend on how it is read.
func TestAnyChunkingGivesTheSameEnds(t *testing.T) {
	message := make([]byte, 3*keptBytes+17)
	for i := range message {
		message[i] = byte(i * 7 / 3)
	}
	for _, most := range []int{1, 3, keptBytes - 1, keptBytes, keptBytes + 1, len(message)} {
		kept := new(tooLargeError)
		for part := range slices.Chunk(message, most) {
			_, _ = kept.Write(part) // it has no errors
		}
		if !bytes.Equal(kept.head, message[:keptBytes]) || !bytes.Equal(kept.tail, message[len(message)-keptBytes:]) {
			t.Errorf("in pieces of %d: %d and %d bytes are kept", most, len(kept.head), len(kept.tail))
		}
	}
}

// TestLineAtTheBound checks lines just below and above the limit.
func TestLineAtTheBound(t *testing.T) {
	const limit = 3 * readBuffer
	for _, test := range []struct{ size, skipped int }{{limit - 1, 0}, {limit + 1, 1}} {
		s := NewStdio(io.NopCloser(io.MultiReader(&endless{left: test.size}, strings.NewReader("\nnext\n"))), nil)
		s.limit = limit
		got, skipped, err := readAll(s)
		if err != nil || skipped != test.skipped || len(got) != 2-test.skipped || got[len(got)-1] != "next" {
			t.Errorf("%d bytes: read %d lines, skipped %d (%v)", test.size, len(got), skipped, err)
		}
	}
}

// The buffer of a long line is freed with the next Read.
func TestLongLineIsNotKept(t *testing.T) {
	s := NewStdio(io.NopCloser(io.MultiReader(&endless{left: 4 * maxKeptLine}, strings.NewReader("\nnext\n"))), nil)
	if line, err := s.Read(); err != nil || len(line) != 4*maxKeptLine {
		t.Fatalf("read %d bytes (%v)", len(line), err)
	}
	must.OK(t, errOf(s.Read()))
	if s.longLine != nil {
		t.Errorf("%d bytes are kept", cap(s.longLine))
	}
}

func TestReadErrorIsTheEnd(t *testing.T) {
	broken := errors.New("broken")
	for _, head := range []string{"", "half a li", strings.Repeat("x", readBuffer+1)} {
		s := NewStdio(io.NopCloser(io.MultiReader(strings.NewReader(head), iotest.ErrReader(broken))), nil)
		if line, err := s.Read(); !errors.Is(err, broken) {
			t.Errorf("after %.20q read %.20q (%v)", head, line, err)
		}
	}
}

// The last line may be long and without a line end.
func TestLongLastLineWithoutAnEnd(t *testing.T) {
	s := NewStdio(io.NopCloser(&endless{left: 2 * readBuffer}), nil)
	got, _, err := readAll(s)
	if err != nil || len(got) != 1 || len(got[0]) != 2*readBuffer {
		t.Errorf("read %d lines (%v)", len(got), err)
	}
}

// pipe makes a pair of pipes as a child process has them.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	must.OK(t, err)
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return r, w
}

func TestWriteMakesOneLine(t *testing.T) {
	r, toChild := pipe(t)
	fromChild, _ := pipe(t)
	s := NewStdio(fromChild, toChild)
	for _, m := range []string{`{"a":1}`, `{"b":2}`} {
		must.OK(t, s.Write([]byte(m), time.Minute))
	}
	must.OK(t, s.Close())
	got, err := io.ReadAll(r)
	if err != nil || string(got) != "{\"a\":1}\n{\"b\":2}\n" {
		t.Errorf("wrote %q (%v)", got, err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

// TestWriteDeadline checks that the timeout ends a write to a full pipe.
func TestWriteDeadline(t *testing.T) {
	_, toChild := pipe(t)
	fromChild, _ := pipe(t)
	s := NewStdio(fromChild, toChild)
	err := s.Write(make([]byte, 1<<20), time.Millisecond)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("ended with %v", err)
	}
}

// A regular file, which has no deadlines, can be written to.
func TestWriteWithoutDeadlines(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "out")
	must.OK(t, err)
	s := NewStdio(io.NopCloser(strings.NewReader("")), f)
	must.OK(t, s.Write([]byte("{}"), time.Millisecond))
	must.OK(t, s.Close())
}

func TestCloseEndsRead(t *testing.T) {
	fromChild, _ := pipe(t)
	_, toChild := pipe(t)
	s := NewStdio(fromChild, toChild)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Read()
		ended <- err
	}()
	runtime.Gosched()
	must.OK(t, s.Close())
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("ended with %v", err)
	}
}

// chunked reads a whole stream in pieces of random size.
func chunked(t *testing.T, stream []byte, most int) []string {
	t.Helper()
	lines, skipped, err := readAll(NewStdio(io.NopCloser(&pieces{text: stream, most: most}), nil))
	if err != nil || skipped != 0 {
		t.Fatalf("skipped %d (%v)", skipped, err)
	}
	return lines
}

// Writes count as progress only when the peer must have read, and reads also within a message.
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
	must.OK(t, errOf(w.WriteString(`{"half":`)))
	go func() { _, _ = s.Read() }() // until the pipe's end
	must.Happen(t, "half a message is progress", func() bool { return s.Progress() == 5 })
}
