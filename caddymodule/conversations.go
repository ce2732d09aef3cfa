package caddymodule

import (
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/internal/conversation"
)

// Conversations configures the threads that an app-server keeps after their turns. The next
// request of the same conversation continues in its thread, so that the model's provider
// has most of the prompt in its cache.
type Conversations struct {
	// Whether each request gets a fresh thread. Default: false.
	Off bool `json:"off,omitempty"`

	// The most threads that each process keeps. Default: 128.
	Max int `json:"max,omitempty"`

	// How long a thread is kept after its last turn. Default: `10m`.
	Idle caddy.Duration `json:"idle,omitempty"`

	// How long a turn waits for the results of the tool calls that it made. Negative: it
	// does not wait, and the request with the results gets a fresh thread. On an app-server
	// that runs elsewhere, turns never wait. Default: `30m`.
	Parked caddy.Duration `json:"parked,omitempty"`
}

// The defaults of [Conversations]. A kept thread takes about 1 MB of the app-server's
// memory, a waiting one 1.5 MB, beside twice its history.
const (
	defaultKept   = 128
	defaultIdle   = 10 * time.Minute
	defaultParked = 30 * time.Minute
	// maxKeptBytes is the most that the histories of the kept threads of one process may
	// have together: twice that is a quarter of the default max_memory.
	maxKeptBytes = 128 << 20
	// maxReasoningBytes is the most that the reasoning of the answers may have that is
	// remembered for one login. An item has some kilobytes.
	maxReasoningBytes = 32 << 20
)

// options returns the options of a conversations block.
func (c *Conversations) options() []option {
	return []option{
		number("max", &c.Max, 1, defaultKept),
		duration("idle", &c.Idle, defaultIdle),
		orOff(duration("parked", &c.Parked, defaultParked), &c.Parked),
	}
}

// parse reads on, off, or a block.
func (c *Conversations) parse(d *caddyfile.Dispenser) error {
	if args := d.RemainingArgs(); len(args) > 1 {
		return d.ArgErr()
	} else if len(args) == 1 {
		c.Off = args[0] == "off"
		if err := isOneOf(d, args[0], []string{"on", "off"}); err != nil {
			return err
		}
	}
	return parseBlock(d, c.options())
}

// complete sets the defaults and checks the values.
func (c *Conversations) complete() error { return completeOptions(c.options()) }

// limits returns the limits for one process. If it is remote, turns do not wait: nothing
// would end them if this Caddy were killed.
func (c *Conversations) limits(remote bool) conversation.Limits {
	if c.Off {
		return conversation.Limits{}
	}
	limits := conversation.Limits{
		Max: c.Max, MaxBytes: maxKeptBytes,
		Idle: time.Duration(c.Idle), Parked: max(0, time.Duration(c.Parked)),
	}
	if remote {
		limits.Parked = 0
	}
	return limits
}
