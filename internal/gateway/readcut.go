package gateway

import (
	"net/http"
	"sync"
	"time"
)

// readCut ends the reading of a request's body from other goroutines. A response
// writer must not be touched once its handler has returned: over HTTP/2 that
// ends the whole process, and over HTTP/1 the deadline would hit the next request
// of the connection. So the writer is used under the lock only, and never after
// close.
type readCut struct {
	mu         sync.Mutex
	controller *http.ResponseController // nil: the reading is over
	done       bool                     // the reading was ended
}

func newReadCut(w http.ResponseWriter) *readCut {
	return &readCut{controller: http.NewResponseController(w)}
}

// cut ends the reading, unless it is over.
func (c *readCut) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.controller == nil {
		return
	}
	c.done = true
	// A writer that knows no deadlines has a client that cannot be slow.
	_ = c.controller.SetReadDeadline(time.Now())
}

// close waits for a running cut and makes later ones do nothing. It reports
// whether there was one: then the connection is of no more use, even if the body
// came to its end just then.
func (c *readCut) close() (wasCut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.controller = nil
	return c.done
}
