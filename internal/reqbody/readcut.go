package reqbody

import (
	"net/http"
	"sync"
	"time"
)

// readCut ends the reading of a request's body from other goroutines. A response
// writer must not be used once its handler has returned: over HTTP/2 that crashes
// the process, and over HTTP/1 the deadline would hit the next request of the
// connection. So the writer is used under the lock only, and never after close.
type readCut struct {
	mu         sync.Mutex
	controller *http.ResponseController // nil after close
	done       bool                     // cut was called before close
}

func newReadCut(w http.ResponseWriter) *readCut {
	return &readCut{controller: http.NewResponseController(w)}
}

// cut ends the reading, unless close was called.
func (c *readCut) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.controller == nil {
		return
	}
	c.done = true
	// A writer without deadlines has a client that cannot be slow.
	_ = c.controller.SetReadDeadline(time.Now())
}

// close waits for a running cut and makes later ones do nothing. It reports
// whether there was one: then the connection is of no more use, even if the body
// was complete just before.
func (c *readCut) close() (wasCut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.controller = nil
	return c.done
}
