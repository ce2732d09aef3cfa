package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
)

// Lease is a request's hold on the app-servers until it has picked: no reload
// takes one away before Release.
type Lease interface {
	// Pick chooses the process for one turn, the least busy of those that are
	// ready. It need not be ready if none is. avoid, which may be nil, is one that
	// has just failed, and is chosen only if there is no other. The process is the
	// turn's, also after Release, until done is called, once its thread is gone.
	Pick(avoid *appserver.Process) (process *appserver.Process, done func())
	// Statuses tells what the processes are doing, in the order of the
	// configuration. There is at least one.
	Statuses() []appserver.Status
	// Release lets go. It may be called more than once.
	Release()
}

// Upstream is where app-servers come from.
type Upstream interface {
	// Lease fails once the server is exiting, with turn.ErrShutdown.
	Lease() (Lease, error)
}

// startWait is how long a request waits for an app-server that is starting, or is
// unresponsive.
const startWait = 10 * time.Second

// errStartWait says that startWait is over.
var errStartWait = errors.New("the app-server was not ready in time")

// conn waits for a process to be ready.
func (g *Gateway) conn(ctx context.Context, process *appserver.Process) (*codexrpc.Conn, error) {
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
