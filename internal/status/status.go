// Package status has what operators and users see of a running server: the document of the admin
// API's GET /codex/status, and the requests that are under way.
package status

import (
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/failures"
)

// Document is the body of GET /codex/status. Times are in RFC 3339.
type Document struct {
	Version    string      `json:"version"` // of this module
	AppServers []AppServer `json:"app_servers"`
	Turns      Turns       `json:"turns"`
	// Stores are the stores of responses, by the names of their engines, such as "redis"; empty for a page.
	Stores map[string]Store `json:"stores,omitempty"`
	// Recording says what is recorded of requests, in which there may be prompts; empty for a page.
	Recording []string `json:"recording,omitempty"`
	// Requests are the oldest requests that are under way, and all requests whose turns are parked:
	// these turns wait for the results of calls.
	Requests []Request `json:"requests"`
}

// The states of a [Store].
const (
	StoreWorks = "works"
	StoreFails = "fails" // it cannot be read, or cannot be changed
)

// Store is the status of a store.
type Store struct {
	State     string `json:"state"`
	Unsettled int    `json:"unsettled"` // turns that do not count towards the limits of their keys yet
}

// Turns counts turns. In a [Document], it counts the turns of all handlers. On a page, it counts
// only the turns of the handler that serves the page.
type Turns struct {
	Running int `json:"running"`
	Waiting int `json:"waiting"` // requests in the queue
}

// AppServer is the status of one process.
type AppServer struct {
	ID           string `json:"id"`                // as in metrics, events and /codex/restart
	Program      string `json:"program,omitempty"` // the name of the program; the arguments are left out, since they may contain secrets
	Home         string `json:"home,omitempty"`
	Instructions string `json:"instructions,omitempty"` // "append" if the provider refuses instructions in place of Codex's own prompt, else empty
	appserver.Status
	Notes   []string       `json:"notes,omitempty"`           // what the operator should know of the program
	Windows map[string]int `json:"context_windows,omitempty"` // by Codex's names of the models that it lists, in tokens

	Login         Login         `json:"login"`
	Conversations Conversations `json:"conversations"`
}

// Public returns the status without what only the operator may know: data that identifies the
// machine, its files or its processes, and what the account has bought. remedy replaces the reason,
// which may have such data. The sign-in is left out, too: whoever knows its code could complete it.
func (a AppServer) Public(remedy string) AppServer {
	a.Program, a.Home, a.Reason, a.PID = "", "", remedy, 0
	a.Account = failures.Redact(a.Account)
	a.Login.Credits, a.Login.ResetCredits, a.Login.SignIn = nil, nil, nil
	return a
}

// Login is what is known of the login of an app-server.
type Login struct {
	State    string    `json:"state"`              // "unknown", "fine", "failing", "spent" or "signed_out"
	Cause    string    `json:"cause,omitempty"`    // why State is neither unknown nor fine, as a word
	Reason   string    `json:"reason,omitempty"`   // the cause as a sentence, with what to do
	ResetsAt time.Time `json:"resets_at,omitzero"` // when a spent plan resets
	// RestsUntil is when a turn tries the login again, if the login does not work.
	RestsUntil time.Time `json:"rests_until,omitzero"`
	Plan       string    `json:"plan,omitempty"` // its name, for example "plus"
	// Allowed is whether the provider now allows the use that the plan includes; nil: not known.
	Allowed *bool `json:"allowed,omitempty"`
	// Meters has the plan's own meter first, then those of single models. LimitsAt is when they were told.
	Meters   []Meter           `json:"meters,omitempty"`
	LimitsAt time.Time         `json:"limits_at,omitzero"`
	Credits  *codexrpc.Credits `json:"credits,omitempty"` // those that the account has bought in addition to the plan
	// ResetCredits are credits for resetting the windows.
	ResetCredits *codexrpc.ResetCredits `json:"reset_credits,omitempty"`
	SignIn       *SignIn                `json:"sign_in,omitempty"` // the sign-in that is under way, or else the last one
}

// SignInState says how far a sign-in has come.
type SignInState string

// The states of a sign-in.
const (
	SignInStarting SignInState = "starting"  // the issuer is asked for a code
	SignInWaiting  SignInState = "waiting"   // somebody has to enter the code
	SignInDone     SignInState = "signed_in" // somebody has entered the code
	SignInFailed   SignInState = "failed"    // the sign-in failed; Reason says why
)

// SignIn is a sign-in of a login, by a code that a person enters in a browser.
type SignIn struct {
	State     SignInState `json:"state"`
	URL       string      `json:"url,omitempty"`  // where the code is to be entered
	Code      string      `json:"code,omitempty"` // only in the state SignInWaiting
	ExpiresAt time.Time   `json:"expires_at,omitzero"`
	Reason    string      `json:"reason,omitempty"` // why the sign-in failed; only the operator may see it
}

// UnderWay reports whether the sign-in has not ended yet.
func (s *SignIn) UnderWay() bool { return s.State == SignInStarting || s.State == SignInWaiting }

// Reset is the outcome of an attempt to reset the windows of a plan for a credit.
type Reset struct {
	Outcome string `json:"outcome"`
	Message string `json:"message"` // the outcome in words
}

// Meter counts the use of some models.
type Meter struct {
	ID      string   `json:"id"`             // for example "codex", the plan's own
	Name    string   `json:"name,omitempty"` // of the model that it counts; empty for the plan's own
	Spent   bool     `json:"spent"`          // its models cannot be used now
	Windows []Window `json:"windows"`
}

// Window is a window of time in which a meter limits the use.
type Window struct {
	Window      string    `json:"window"` // its length, for example "5h" or "7d"
	UsedPercent float64   `json:"used_percent"`
	ResetsAt    time.Time `json:"resets_at,omitzero"`
	Over        bool      `json:"over,omitempty"` // it has been reset since, so its use is not known now
}

// Conversations counts the threads, turns and requests of the conversations of an app-server.
type Conversations struct {
	Kept      int            `json:"kept"`      // threads that wait for the next request of a conversation; those with a parked turn are included
	Spare     int            `json:"spare"`     // threads that wait for the first request of a conversation
	Parked    int            `json:"parked"`    // turns that wait for the results of their calls
	Continued int            `json:"continued"` // requests that went on in a kept thread
	Resumed   int            `json:"resumed"`   // requests that brought the results for a parked turn
	Prepared  int            `json:"prepared"`  // requests that got a spare thread
	Fallbacks map[string]int `json:"fallbacks"` // requests whose thread was gone or could not go on, by reason
}
