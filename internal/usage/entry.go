package usage

import (
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
)

// Entry is one turn: an element of GET /v1/usage/raw.
type Entry struct {
	Time        int64   `json:"time"` // of its end, Unix time in seconds
	RequestID   string  `json:"request_id"`
	User        string  `json:"user,omitempty"`
	Choice      int     `json:"choice"`
	Route       string  `json:"route"` // "chat" or "responses"
	Model       string  `json:"model"`
	Mode        string  `json:"output_mode"`
	Stream      bool    `json:"stream"`
	Status      int     `json:"status"`
	Code        string  `json:"code,omitempty"`         // of the error
	Duration    float64 `json:"duration"`               // since the request came, in seconds
	FirstOutput float64 `json:"first_output,omitempty"` // likewise
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
		Code:        name(r.Code),
		Duration:    r.Duration.Seconds(),
		FirstOutput: r.FirstOutput.Seconds(),
		Tokens:      tokensOf(r),
		Calls:       r.Tools.Calls,
		Truncated:   r.Tools.Truncated,
	}
}

// Raw is the body of GET /v1/usage/raw.
type Raw struct {
	Object            string      `json:"object"` // "list"
	Data              []Entry     `json:"data"`   // the newest first
	ToolBufferMetrics ToolBuffers `json:"tool_buffer_metrics"`
}

// ring keeps the last maxEntries entries.
type ring struct {
	entries []Entry
	next    int // where the next entry goes, once it is full
}

func (r *ring) put(e Entry) {
	if len(r.entries) < maxEntries {
		r.entries = append(r.entries, e)
		return
	}
	r.entries[r.next] = e
	r.next = (r.next + 1) % maxEntries
}

// newest copies the entries that are wanted, the newest first.
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
