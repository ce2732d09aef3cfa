package reqbody

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/claims"
)

// TestCut: the writer is not touched any more once close has returned.
func TestCut(t *testing.T) {
	entered, goOn, set := make(chan struct{}), make(chan struct{}), 0
	w := deadlineWriter{httptest.NewRecorder(), func() {
		close(entered)
		<-goOn
		time.Sleep(time.Millisecond)
		set++
	}}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	c := newBodyReader(ctx, w, http.NoBody)
	go c.check()
	<-entered
	go close(goOn)
	if !c.close() || set != 1 {
		t.Error("a running cut was not waited for")
	}
	c.check()
	if set != 1 {
		t.Errorf("the deadline was set %d times", set)
	}
	c = newBodyReader(t.Context(), w, http.NoBody)
	if c.check(); c.close() {
		t.Error("nothing was cut")
	}
}

// deadlineWriter is a response writer that calls a function for each read deadline.
type deadlineWriter struct {
	*httptest.ResponseRecorder
	set func()
}

func (w deadlineWriter) SetReadDeadline(time.Time) error {
	w.set()
	return nil
}

// TestGoneAfterBody: a client that has gone when its body was complete was not too slow.
func TestGoneAfterBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, gone := context.WithCancelCause(t.Context())
		errGone := errors.New("gone")
		end := readFunc(func([]byte) (int, error) {
			gone(errGone)
			synctest.Wait()
			return 0, io.EOF
		})
		p := NewPool(16<<20, 4<<20, claims.NewCrowd(nil))
		request := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader("{}"), end))
		memory := p.Claim("a")
		defer memory.Release()
		if _, err := p.Read(ctx, httptest.NewRecorder(), request, memory, new([]byte)); !errors.Is(err, errGone) {
			t.Error(err)
		}
	})
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(to []byte) (int, error) { return f(to) }
