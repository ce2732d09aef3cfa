package usage

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/quota"
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

// NewEntry returns the entry of a turn. It copies the texts that may be parts of a request's body, which an
// entry must not keep in memory: one copy for all entries of a model.
func NewEntry(r *Record) Entry {
	return Entry{
		Time:        r.Time.Unix(),
		RequestID:   r.RequestID,
		User:        r.User,
		Choice:      r.Choice,
		Route:       r.Route,
		Model:       unique.Make(Shorten(r.Model)).Value(),
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

// Record describes a turn that has ended, or a request that was refused before its turns, without
// text of the conversation. A refused one has no model and no mode.
type Record struct {
	Unlisted    bool              // the usage counts the refused request, but does not list it
	Time        time.Time         // when all turns of the request had ended
	Duration    time.Duration     // from the request's arrival to Time
	FirstOutput time.Duration     // from the request's arrival to the first text, reasoning or call; 0: there was none
	Route       string            // of the request, as logs and metrics call it
	RequestID   string            // x-request-id
	User        string            // empty: not known
	Key         string            // the id of the key, if the key is from a file; otherwise empty
	Choice      int               // the choice's index
	Model       string            // as the client named the model, of any length
	CodexModel  string            // Codex's name of the model
	Mode        turn.Mode         // the form of tool calls
	Stop        turn.StopMode     // when calls end the turn
	Stream      bool              // the client asked for a stream
	Status      int               // the HTTP status; if the client left, the status of apierror.ClientGone
	Code        apierror.Code     // the code of the error; empty: neither the turn nor its request failed, or the error has no code
	Usage       codexrpc.Usage    // tokens; zero where Codex does not report them
	Estimated   bool              // a part of Usage is estimated, since the turn was interrupted
	Price       turn.Price        // of the turn, as far as the provider reports it
	Finish      turn.FinishReason // why the turn ended; empty: the turn failed
	Tools       turn.Report
	Overrides   []string           // settings of tool calls that differ from the defaults, as name=value
	NotStored   string             // what could not be stored, as in the header X-Codex-Not-Stored; empty: nothing
	Meter       string             // the limit id of the plan's meter that counted the turn; empty: not known
	Windows     []PlanWindow       // the windows of that meter, as last told
	Told        bool               // this is no turn: a provider has told Windows at Time, of any meters
	Thread      string             // where the thread came from: a [conversation.Origin]
	Process     *appserver.Process // the app-server that ran the turn
	Limits      []quota.State      // of the key, after all turns of the request; set only in the record of the first choice
}

// keyName is the name under which the turn counts for its key: the user's if the key has no id.
func (r *Record) keyName() string { return cmp.Or(r.Key, r.User) }
