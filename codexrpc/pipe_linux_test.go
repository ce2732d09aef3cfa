package codexrpc

import (
	"errors"
	"io"
	"os"
	"runtime"
	"testing"
	"time"
)

// makeBusy returns a reader of a pipe that is busy.
func makeBusy(t *testing.T) (*pipeReader, *os.File) {
	t.Helper()
	if runtime.GOMAXPROCS(0) < 2 {
		t.Cleanup(func() { runtime.GOMAXPROCS(1) })
		runtime.GOMAXPROCS(2)
	}
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r := newPipeReader(from).(*pipeReader)
	t.Cleanup(func() {
		_ = r.Close()
		_ = to.Close()
		if n := busyPipes.Load(); n != 0 {
			t.Errorf("%d readers are still counted as busy", n)
		}
	})
	for r.raw == nil { // until the machine has time for so many reads
		passByte(t, r, to)
	}
	return r, to
}

// passByte writes a byte and reads it.
func passByte(t *testing.T, r io.Reader, to io.Writer) {
	t.Helper()
	var got [8]byte
	if _, err := to.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(got[:]); n != 1 || err != nil || got[0] != 'x' {
		t.Fatalf("%d bytes, %q, %v", n, got, err)
	}
}

// TestBusyPipe checks that a busy reader passes on what it reads, is busy no longer when
// little comes, and may become busy again.
func TestBusyPipe(t *testing.T) {
	r, to := makeBusy(t)
	for r.raw != nil {
		go func() {
			time.Sleep(2 * busyWait * time.Millisecond)
			_, _ = to.Write([]byte("y"))
		}()
		var got [8]byte
		if n, err := r.Read(got[:]); n != 1 || err != nil || got[0] != 'y' {
			t.Fatalf("%d bytes, %q, %v", n, got, err)
		}
	}
	if n := busyPipes.Load(); n != 0 {
		t.Errorf("%d readers are counted as busy", n)
	}
	for r.raw == nil {
		passByte(t, r, to)
	}
}

// TestBusyPipeEnds checks that a busy reader reads to the end of the pipe.
func TestBusyPipeEnds(t *testing.T) {
	r, to := makeBusy(t)
	if _, err := to.Write([]byte("last")); err != nil {
		t.Fatal(err)
	}
	_ = to.Close()
	if got, err := io.ReadAll(r); string(got) != "last" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestBusyPipeClose checks that Close ends a Read under way, busy or not.
func TestBusyPipeClose(t *testing.T) {
	for name, pause := range map[string]time.Duration{"busy": 0, "not busy": 5 * busyWait * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			r, _ := makeBusy(t)
			ended := make(chan error)
			go func() {
				_, err := r.Read(make([]byte, 8))
				ended <- err
			}()
			time.Sleep(pause)
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if err := <-ended; !errors.Is(err, os.ErrClosed) {
				t.Errorf("the Read ended with %v", err)
			}
		})
	}
}

// TestBusyPipeLimit checks that no more readers become busy than half of the processors.
func TestBusyPipeLimit(t *testing.T) {
	_, _ = makeBusy(t)
	busyPipes.Add(int32(runtime.GOMAXPROCS(0)))
	defer busyPipes.Add(-int32(runtime.GOMAXPROCS(0)))
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	r := newPipeReader(from).(*pipeReader)
	defer r.Close()
	if r.begin(); r.raw != nil {
		t.Error("one reader more is busy")
	}
	passByte(t, r, to)
}

// TestBusyPipeCost checks that a busy reader allocates nothing.
func TestBusyPipeCost(t *testing.T) {
	r, to := makeBusy(t)
	got, x := make([]byte, 8), []byte("x")
	n := testing.AllocsPerRun(100, func() {
		if _, err := to.Write(x); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(got); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations a read", n)
	}
}
