package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/threads"
)

// Lease is a request's hold on the app-servers until it has picked: a reload stops
// none of them before Release.
type Lease interface {
	// Pick returns the process for one turn: the least busy of those that are ready,
	// or any if none is ready. avoid are processes that have just failed; one of them is
	// returned only if there is no other. The turn holds the process, also after
	// Release, until it calls done once its thread is gone.
	Pick(avoid ...*appserver.Process) (process *appserver.Process, done func())
	// Resume calls claim with the conversations of each process until it returns true.
	// That process is then the turn's, as with Pick.
	Resume(claim func(*threads.Conversations) bool) (done func(), found bool)
	// Conversations returns those of a process that was picked; nil: it keeps none.
	Conversations(process *appserver.Process) *threads.Conversations
	// Login returns the login of a process that was picked.
	Login(process *appserver.Process) *loginstate.Login
	// Len returns how many processes there are, at least one.
	Len() int
	// Statuses returns the states of the processes, in the order of the configuration.
	Statuses() []appserver.Status
	// Logins returns the logins of the processes, in the same order. Several may have one.
	Logins() []*loginstate.Login
	// Release ends the lease. It may be called more than once.
	Release()
}

// Upstream is where app-servers come from.
type Upstream interface {
	// Lease fails once the server is exiting, with turn.ErrShutdown.
	Lease() (Lease, error)
}

// startWait is how long a request waits for an app-server that is starting or
// unresponsive.
const startWait = 10 * time.Second

// errStartWait means that startWait has passed.
var errStartWait = errors.New("the app-server was not ready in time")

// conn returns the connection of a process, once that is ready.
func (g *Gateway) conn(ctx context.Context, process *appserver.Process) (*codexrpc.Conn, error) {
	if conn := process.Serving(); conn != nil && conn.Err() == nil && process.Status().State == appserver.StateReady {
		return conn, nil // without a timer
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startWait, errStartWait)
	defer cancel()
	conn, err := process.Conn(ctx)
	if errors.Is(err, errStartWait) {
		waited := fmt.Sprintf("it has not answered for %s; try again in a moment", startWait)
		return nil, &appserver.NotReadyError{
			State:      process.Status().State,
			Reason:     waited,
			Remedy:     waited,
			RetryAfter: time.Second,
		}
	}
	return conn, err
}

// Sole returns an upstream with one process, which keeps no conversations. Whoever has
// started the process stops it.
func Sole(process *appserver.Process) Upstream { return &sole{process: process} }

type sole struct {
	process *appserver.Process
	login   loginstate.Login
}

func (s *sole) Lease() (Lease, error) { return s, nil }

func (s *sole) Pick(...*appserver.Process) (*appserver.Process, func()) {
	return s.process, func() {}
}

func (*sole) Resume(func(*threads.Conversations) bool) (func(), bool) { return nil, false }

func (*sole) Conversations(*appserver.Process) *threads.Conversations { return nil }

func (s *sole) Login(*appserver.Process) *loginstate.Login { return &s.login }

func (s *sole) Logins() []*loginstate.Login { return []*loginstate.Login{&s.login} }

func (*sole) Len() int { return 1 }

func (s *sole) Statuses() []appserver.Status { return []appserver.Status{s.process.Status()} }

func (*sole) Release() {}
