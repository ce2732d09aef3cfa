package usage

import (
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Entry is one turn in the body of GET /v1/usage/raw.
type Entry struct {
	Time        int64      `json:"time"` // when the turn ended, in Unix seconds
	RequestID   string     `json:"request_id"`
	User        string     `json:"user,omitempty"`
	Choice      int        `json:"choice"`
	Route       string     `json:"route"` // "chat", "responses", "completions", "messages", "ollama" or "images"
	Model       string     `json:"model"`
	Mode        string     `json:"output_mode"`
	Stream      bool       `json:"stream"`
	Status      int        `json:"status"`
	Code        string     `json:"code,omitempty"`         // of the error; empty: the turn has not failed
	Duration    float64    `json:"duration"`               // from the request to the end, in seconds
	FirstOutput float64    `json:"first_output,omitempty"` // from the request to the first output, in seconds
	Tokens      Tokens     `json:"usage"`
	Estimated   bool       `json:"usage_estimated,omitempty"` // a part of the usage was counted by this server, not by the provider
	Price       turn.Price `json:"price,omitzero"`            // what the provider charges, if it reports that
	Calls       int        `json:"tool_call_count"`
	Truncated   bool       `json:"tool_call_truncated"`
}

// newEntry returns the entry of a turn. last is the entry of the turn before. Most turns have the
// same user and model as the turn before. For such turns, both entries share the copies of these
// texts.
func newEntry(r *gateway.Record, last *Entry) Entry {
	return Entry{
		Time:        r.Time.Unix(),
		RequestID:   r.RequestID, // no copy is needed: this text is not a part of a request's body, see cloneUnless
		User:        cloneUnless(last.User, r.User),
		Choice:      r.Choice,
		Route:       string(r.Route),
		Model:       cloneUnless(last.Model, boundedName(r.Model)),
		Mode:        string(r.Mode),
		Stream:      r.Stream,
		Status:      r.Status,
		Code:        strings.Clone(boundedName(string(r.Code))),
		Duration:    r.Duration.Seconds(),
		FirstOutput: r.FirstOutput.Seconds(),
		Tokens:      Tokens(r.Usage),
		Estimated:   r.Estimated,
		Price:       r.Price,
		Calls:       r.Tools.Calls,
		Truncated:   r.Tools.Truncated,
	}
}

// cloneUnless returns known if it equals text, else a copy of text. The text may be a part of a
// request's body, which an entry must not keep in memory.
func cloneUnless(known, text string) string {
	if known == text {
		return known
	}
	return strings.Clone(text)
}

// Raw is the body of GET /v1/usage/raw.
type Raw struct {
	Object            string      `json:"object"` // "list"
	Data              []Entry     `json:"data"`   // newest first
	ToolBufferMetrics ToolBuffers `json:"tool_buffer_metrics"`
}

// addEntry adds the entry of a turn. b.entries has up to 2*maxEntries entries, so that addEntry
// does not move the entries for each turn. Only the last maxEntries of them are used.
func (b *Book) addEntry(r *gateway.Record) {
	if len(b.entries) == 2*maxEntries {
		clear(b.entries[copy(b.entries, b.entries[maxEntries:]):])
		b.entries = b.entries[:maxEntries]
	}
	last := new(Entry)
	if n := len(b.entries); n > 0 {
		last = &b.entries[n-1]
	}
	b.entries = append(b.entries, newEntry(r, last))
}

// newestEntries returns the wanted entries among the last maxEntries entries, newest first.
func (b *Book) newestEntries(wanted func(*Entry) bool) []Entry {
	found := []Entry{}
	for _, e := range slices.Backward(b.entries[max(0, len(b.entries)-maxEntries):]) {
		if wanted(&e) {
			found = append(found, e)
		}
	}
	return found
}
