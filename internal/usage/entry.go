package usage

import (
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
)

// Entry is one turn in the body of GET /v1/usage/raw.
type Entry struct {
	Time        int64   `json:"time"` // when it ended, in Unix seconds
	RequestID   string  `json:"request_id"`
	User        string  `json:"user,omitempty"`
	Choice      int     `json:"choice"`
	Route       string  `json:"route"` // "chat" or "responses"
	Model       string  `json:"model"`
	Mode        string  `json:"output_mode"`
	Stream      bool    `json:"stream"`
	Status      int     `json:"status"`
	Code        string  `json:"code,omitempty"`         // of the error, if it failed
	Duration    float64 `json:"duration"`               // from the request to the end, in seconds
	FirstOutput float64 `json:"first_output,omitempty"` // from the request to the first output, in seconds
	Tokens      Tokens  `json:"usage"`
	Calls       int     `json:"tool_call_count"`
	Truncated   bool    `json:"tool_call_truncated"`
}

func newEntry(r gateway.Record) Entry {
	return Entry{
		Time:        r.Time.Unix(),
		RequestID:   strings.Clone(r.RequestID),
		User:        strings.Clone(r.User),
		Choice:      r.Choice,
		Route:       string(r.Route),
		Model:       name(r.Model),
		Mode:        string(r.Mode),
		Stream:      r.Stream,
		Status:      r.Status,
		Code:        name(string(r.Code)),
		Duration:    r.Duration.Seconds(),
		FirstOutput: r.FirstOutput.Seconds(),
		Tokens:      Tokens(r.Usage),
		Calls:       r.Tools.Calls,
		Truncated:   r.Tools.Truncated,
	}
}

// Raw is the body of GET /v1/usage/raw.
type Raw struct {
	Object            string      `json:"object"` // "list"
	Data              []Entry     `json:"data"`   // newest first
	ToolBufferMetrics ToolBuffers `json:"tool_buffer_metrics"`
}

// ring holds the last maxEntries entries.
type ring struct {
	entries []Entry
	next    int // index for the next entry once the ring is full
}

func (r *ring) put(e Entry) {
	if len(r.entries) < maxEntries {
		r.entries = append(r.entries, e)
		return
	}
	r.entries[r.next] = e
	r.next = (r.next + 1) % maxEntries
}

// newest returns the wanted entries, newest first.
func (r *ring) newest(wanted func(*Entry) bool) []Entry {
	found := []Entry{}
	for i := range r.entries {
		if e := &r.entries[(r.next+i)%len(r.entries)]; wanted(e) {
			found = append(found, *e)
		}
	}
	slices.Reverse(found)
	return found
}
