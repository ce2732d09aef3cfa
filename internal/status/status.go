// Package status has the document of the admin API's GET /codex/status.
package status

import "time"

// Document is the body of GET /codex/status. Times are in RFC 3339.
type Document struct {
	Version    string      `json:"version"` // of this module
	AppServers []AppServer `json:"app_servers"`
	Turns      Turns       `json:"turns"`
}

// Turns counts the turns of all handlers.
type Turns struct {
	Running int `json:"running"`
	Waiting int `json:"waiting"` // requests in the queue
}

// AppServer is the status of one process.
type AppServer struct {
	ID           string     `json:"id"`                // as in metrics, events and /codex/restart
	Program      string     `json:"program,omitempty"` // without its arguments, which may contain secrets
	Home         string     `json:"home,omitempty"`
	Address      string     `json:"address,omitempty"` // of an app-server that runs elsewhere
	State        string     `json:"state"`
	Since        time.Time  `json:"since"`
	Reason       string     `json:"reason,omitempty"` // why it is not ready
	RetryAt      *time.Time `json:"retry_at,omitempty"`
	Login        string     `json:"login"`                  // "ok", "missing" or "unknown"
	Instructions string     `json:"instructions,omitempty"` // "append": the provider refuses to have its prompt replaced
	PID          int        `json:"pid,omitempty"`
	Version      string     `json:"version,omitempty"`
	Restarts     int        `json:"restarts"`
	Replacements int        `json:"replacements"`
	Threads      int        `json:"threads"`
	Draining     int        `json:"draining"`
	Memory       int64      `json:"memory_bytes,omitempty"`

	Plan          Plan          `json:"plan"`
	Conversations Conversations `json:"conversations"`
}

// Plan is what the model's provider says to the login.
type Plan struct {
	State    string     `json:"state"`               // "unknown", "fine", "spent" or "refused"
	ResetsAt *time.Time `json:"resets_at,omitempty"` // of a spent plan
}

// Conversations counts the threads that are kept, and what became of requests for which
// one was.
type Conversations struct {
	Kept      int            `json:"kept"`      // parked ones included
	Parked    int            `json:"parked"`    // with turns that wait for results
	Continued int            `json:"continued"` // requests that continued in a kept thread
	Resumed   int            `json:"resumed"`   // requests that resumed a parked turn
	Fallbacks map[string]int `json:"fallbacks"` // requests that got a fresh thread after all, by reason
}
