package reqbody

import (
	"net/http/httptest"
	"testing"
	"time"
)

// TestReadCut: the writer is not touched any more once close has returned.
func TestReadCut(t *testing.T) {
	w := &slowDeadlines{httptest.NewRecorder(), make(chan struct{}), make(chan struct{}), 0}
	c := newReadCut(w)
	go c.cut()
	<-w.entered
	go close(w.leave)
	if !c.close() || w.set != 1 {
		t.Error("a running cut was not waited for")
	}
	c.cut()
	if w.set != 1 {
		t.Errorf("the deadline was set %d times", w.set)
	}
	if newReadCut(w).close() {
		t.Error("nothing was cut")
	}
}

// slowDeadlines takes a while to set a deadline.
type slowDeadlines struct {
	*httptest.ResponseRecorder
	entered, leave chan struct{}
	set            int
}

func (w *slowDeadlines) SetReadDeadline(time.Time) error {
	close(w.entered)
	<-w.leave
	time.Sleep(time.Millisecond)
	w.set++
	return nil
}
