package usage

import (
	"cmp"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

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
