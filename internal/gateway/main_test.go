package gateway

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/fakeserver"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

func TestMain(m *testing.M) {
	relay()
	fakeserver.Main()
	goleak.VerifyTestMain(m)
}

// patience bounds what must happen in the end, on a machine however busy.
const patience = time.Minute

// fakeUpstream is one app-server that plays recordings. It counts what is held of it.
type fakeUpstream struct {
	process       *appserver.Process
	leases, turns atomic.Int64
	conversations *conversation.Threads // nil: nothing is kept
	login         loginstate.Login
	limits        *codexrpc.RateLimits // of the plan
}

// RateLimits implements the Plan of a [conversation.Member].
func (u *fakeUpstream) RateLimits(ctx context.Context, _ time.Duration) *codexrpc.RateLimits {
	if in := u.process.Ready(); u.limits == nil && in != nil {
		limits, _ := in.Conn().RateLimits(ctx, false)
		return limits
	}
	return u.limits
}

// LoginID implements the Plan of a [conversation.Member].
func (u *fakeUpstream) LoginID() string { return "login" }

// newFakeUpstream returns an upstream whose app-server, which is ready, plays recordings.
func newFakeUpstream(t testing.TB, opts fakecodex.Options) *fakeUpstream {
	t.Helper()
	return newServedUpstream(t, playing(transcripts(t), opts))
}

func (u *fakeUpstream) Lease() (conversation.Lease, error) {
	u.leases.Add(1)
	return &fakeLease{u: u}, nil
}

type fakeLease struct {
	u        *fakeUpstream
	released atomic.Bool
}

func (l *fakeLease) Pick(string, ...*appserver.Process) (conversation.Member, func()) {
	l.u.turns.Add(1)
	return l.Members()[0], func() { l.u.turns.Add(-1) }
}

func (l *fakeLease) Peek(model string) (conversation.Member, func()) { return l.Pick(model) }

func (l *fakeLease) Resume(_ string, claim func(conversation.Member) bool) (conversation.Member, func(), bool) {
	if l.u.conversations == nil || !claim(l.Members()[0]) {
		return conversation.Member{}, nil, false
	}
	picked, done := l.Pick("")
	return picked, done, true
}

func (l *fakeLease) Members() []conversation.Member {
	return []conversation.Member{{Process: l.u.process, Login: &l.u.login, Threads: l.u.conversations, Plan: l.u}}
}

func (*fakeLease) Len() int { return 1 }

func (*fakeLease) Logins() int { return 1 }

func (l *fakeLease) Release() {
	if l.released.CompareAndSwap(false, true) {
		l.u.leases.Add(-1)
	}
}

// witness is an observer that keeps what it is told.
type witness struct {
	began func() // called when an answer begins; nil: nothing is
	mu    sync.Mutex

	failed []*apierror.Error
	turns  []usage.Record
	open   int // answers that are under way
}

func (w *witness) AnswerBegan(bool) func() {
	if w.began != nil {
		w.began()
	}
	w.add(1)
	return func() { w.add(-1) }
}

func (w *witness) add(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open += n
}

func (w *witness) TurnsEnded(_ context.Context, turns []usage.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns = append(w.turns, turns...)
}

func (w *witness) RequestFailed(_ *http.Request, err *apierror.Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = append(w.failed, err)
}

// underWay returns how many answers are.
func (w *witness) underWay() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open
}

func newGateway(u conversation.Upstream, opts Options) *Gateway {
	opts.MaxBody, opts.MaxBodyMemory = cmp.Or(opts.MaxBody, 1<<20), cmp.Or(opts.MaxBodyMemory, 1<<30)
	opts.IdleTimeout = patience
	opts.Tools = turn.ToolOptions{OutputMode: turn.ModeAuto, TextualTools: turn.TextualAuto, StopAfterTools: turn.StopBurst}
	opts.StopGrace = 100 * time.Millisecond
	opts.Logger = cmp.Or(opts.Logger, discard())
	if opts.User == nil {
		opts.User = func(r *http.Request) string { return r.Header.Get("User") }
	}
	return New(u, opts)
}
