package conversation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
)

// Member is one of the app-servers of an [Upstream].
type Member struct {
	Process *appserver.Process
	Login   *loginstate.Login // several members may have the same login
	Threads *Threads          // nil: the member keeps no threads
	// Plan asks for the limits of the login's plan, if the last answer is older than maxAge, and waits for the
	// answer until ctx ends. It returns what the Login knows then. LoginID names the login's account. Nil: nobody can
	// be asked.
	Plan interface {
		RateLimits(ctx context.Context, maxAge time.Duration) *codexrpc.RateLimits
		LoginID() string
	}
	// Rests is the reason why the login was resting (not used because of failures) when
	// [Lease].Pick compared the members. It is nil if the login was not resting, or if there is no
	// other member. It does not change if the login begins to rest later.
	Rests error
}

// Meter returns the id of the login, and the meter of its plan that counts a model, as last told; nil: not known.
func (m *Member) Meter(model string) (loginID string, meter *codexrpc.Meter) {
	if m.Login == nil || m.Plan == nil {
		return "", nil
	}
	return m.Plan.LoginID(), m.Login.Limits().Meter(model)
}

// Lease gives a request access to the app-servers (the members), so that it can pick one. Until
// Release is called, a reload of the configuration stops none of them.
type Lease interface {
	// Pick returns the member for one turn with a model: the least busy member that is ready, or any member if
	// none is ready. avoid are processes that have just failed; Pick returns one of them only if
	// there is no other. The turn must call done when its thread is kept or unloaded. Until then
	// the process counts as in use, even after Release.
	Pick(model string, avoid ...*appserver.Process) (picked Member, done func())
	// Peek returns what Pick would return now, for a caller that starts no turn. The caller must call done.
	Peek(model string) (best Member, done func())
	// Resume passes one member with Threads after another to claim, for a turn with a model. When claim returns true, Resume
	// returns this member, and the turn must call done, as after Pick. If claim never returns true, found
	// is false and done is nil.
	Resume(model string, claim func(Member) bool) (resumed Member, done func(), found bool)
	// Len returns how many members there are, at least one.
	Len() int
	// Logins returns how many logins the members have, at least one; several members may share a login.
	Logins() int
	// Members returns the running members, in the order of the configuration.
	Members() []Member
	// Release ends the lease. It may be called more than once.
	Release()
}

// Upstream gives requests access to the app-servers.
type Upstream interface {
	// Lease returns a lease for one request, or turn.ErrShutdown while the server is exiting.
	Lease() (Lease, error)
}

// startWait is how long a request waits for an app-server that is starting or does not answer.
const startWait = 10 * time.Second

// errStartWait means that an app-server was not ready within startWait.
var errStartWait = errors.New("the app-server was not ready in time")

// Connect waits until a process is ready, but at most startWait, and returns its app-server.
func Connect(ctx context.Context, process *appserver.Process) (*appserver.Instance, error) {
	if in := process.Ready(); in != nil {
		return in, nil // the usual case, which needs no timer
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startWait, errStartWait)
	defer cancel()
	in, err := process.Instance(ctx)
	if errors.Is(err, errStartWait) {
		reason := fmt.Sprintf("it has not answered for %s; try again in a moment", startWait)
		return nil, &appserver.NotReadyError{
			State:      process.Status().State,
			Reason:     reason,
			Remedy:     reason,
			RetryAfter: time.Second,
		}
	}
	return in, err
}

// Sole returns an upstream that has only this process. It keeps no threads and does not stop the process.
func Sole(process *appserver.Process) Upstream { return &sole{process: process} }

type sole struct {
	process *appserver.Process
	login   loginstate.Login
}

func (s *sole) Lease() (Lease, error) { return s, nil }

func (s *sole) Pick(string, ...*appserver.Process) (Member, func()) { return s.Members()[0], func() {} }

func (s *sole) Peek(model string) (Member, func()) { return s.Pick(model) }

func (*sole) Resume(string, func(Member) bool) (Member, func(), bool) {
	return Member{}, nil, false
}

func (s *sole) Members() []Member { return []Member{{Process: s.process, Login: &s.login}} }

func (*sole) Len() int { return 1 }

func (*sole) Logins() int { return 1 }

func (*sole) Release() {}
