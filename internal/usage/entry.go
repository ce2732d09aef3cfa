package usage

import (
	"cmp"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Entry is a turn, or a request refused before its turns, in the body of GET /v1/usage/raw.
type Entry struct {
	Time        int64      `json:"time"` // when the turn ended, in Unix seconds
	RequestID   string     `json:"request_id"`
	User        string     `json:"user,omitempty"`
	Choice      int        `json:"choice"`
	Route       string     `json:"route"` // the name of the API; of a refused request, also others
	Model       string     `json:"model"`
	Mode        string     `json:"output_mode"` // empty: the request was refused before its turns
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
	Recorded    bool       `json:"recorded,omitempty"` // the caller may see a recording of the request; set by who shows the entry
}

// NewEntry returns the entry of a turn. last is the entry of the turn before. Most turns have the same
// user and model as the turn before, and both entries then share one copy of these texts.
func NewEntry(r *Record, last *Entry) Entry {
	return Entry{
		Time:        r.Time.Unix(),
		RequestID:   r.RequestID, // no copy is needed: this text is not a part of a request's body, see cloneUnless
		User:        cloneUnless(last.User, r.User),
		Choice:      r.Choice,
		Route:       r.Route,
		Model:       cloneUnless(last.Model, Shorten(r.Model)),
		Mode:        string(r.Mode),
		Stream:      r.Stream,
		Status:      r.Status,
		Code:        strings.Clone(Shorten(string(r.Code))),
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

// addEntry adds an entry. b.entries and b.refused have up to 2*maxEntries entries each, so that
// addEntry does not move the entries each time. Only the last maxEntries of them are used.
func (b *Book) addEntry(e Entry) {
	list := &b.entries
	if e.Mode == "" {
		list = &b.refused
	}
	if len(*list) == 2*maxEntries {
		clear((*list)[copy(*list, (*list)[maxEntries:]):])
		*list = (*list)[:maxEntries]
	}
	*list = append(*list, e)
}

// newestEntries returns the wanted entries among the last maxEntries turns and the last maxEntries refused
// requests, newest first.
func (b *Book) newestEntries(wanted func(*Entry) bool) []Entry {
	found := []Entry{}
	for _, list := range [...][]Entry{b.entries, b.refused} {
		for _, e := range slices.Backward(list[max(0, len(list)-maxEntries):]) {
			if wanted(&e) {
				found = append(found, e)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Entry) int { return cmp.Compare(b.Time, a.Time) })
	return found
}
