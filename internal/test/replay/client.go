package replay

import (
	"net/http"
	"regexp"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/recorder"
)

// client is the client of a replay. It lets the server wait where the recorded client did.
type client struct {
	answer  *answer // that was recorded
	header  http.Header
	written int
	waited  int           // how many entries of the answer are complete
	end     int           // their bytes
	arrived chan struct{} // see eventsArrived
	id      string        // of a response
	body    *timedBody
}

func newClient(recorded *answer) *client {
	return &client{answer: recorded, header: make(http.Header), arrived: make(chan struct{})}
}

func (c *client) Header() http.Header { return c.header }

func (c *client) WriteHeader(int) {}

// Write takes bytes, after the time that the recorded client took for them.
func (c *client) Write(p []byte) (int, error) {
	c.written += len(p)
	if found := responseID.FindSubmatch(p); c.id == "" && found != nil {
		c.id = string(found[1])
	}
	return len(p), c.FlushError()
}

// FlushError implements the Flusher of [http.ResponseController]. The recorded client may have let the server wait
// at the end of each entry.
func (c *client) FlushError() error {
	for ; c.waited < len(c.answer.writes); c.waited++ {
		e := &c.answer.writes[c.waited]
		if c.end+len(e.Text) > c.written {
			break
		}
		c.end += len(e.Text)
		if took := time.Duration(e.Took); took >= recorder.MinWait {
			c.wait(took)
		}
	}
	return nil
}

// rounding is more than the error of times in a recording.
const rounding = 2 * time.Microsecond

// wait waits for about a time: if events come at its end, they are there before.
func (c *client) wait(took time.Duration) {
	end := time.Now().Add(took)
	late := time.NewTimer(took + rounding)
	defer late.Stop()
	for {
		select {
		case <-late.C:
			return
		case <-c.arrived:
			if time.Until(end) <= rounding {
				return
			}
		}
	}
}

// eventsArrived ends a wait that is about to end.
func (c *client) eventsArrived() {
	select {
	case c.arrived <- struct{}{}:
	default:
	}
}

var responseID = regexp.MustCompile(`"id":"(resp_[^"]+)"`)

// cancel cancels the response.
func (c *client) cancel(g *gateway.Gateway) {
	r, _ := http.NewRequest(http.MethodPost, origin+"/v1/responses/cancel", http.NoBody)
	g.Serve(gateway.Find("/v1/responses/*/cancel"), newClient(new(answer)), r, c.id)
}

// SetWriteDeadline is called if a write takes too long.
func (c *client) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline ends the reading of the body if it has passed.
func (c *client) SetReadDeadline(at time.Time) error {
	if c.body != nil && !at.IsZero() && !at.After(time.Now()) {
		c.body.expire()
	}
	return nil
}
