package pool

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/quota"
)

const (
	// loginPoll is the pause between two checks of a login.
	loginPoll = 2 * time.Second
	// lookupTimeout bounds a request to an app-server for the limits of a plan.
	lookupTimeout = 5 * time.Second
)

// login is the login of all processes of an app_server.
type login struct {
	*loginstate.Login
	supervisor *Supervisor
	key        string        // of the members, without the ordinal
	wake       chan struct{} // capacity 1: wakes watch
	cancel     context.CancelFunc
	done       chan struct{}
	signIn     signIn
	// filesBeforeSignIn has the login files that the processes had before a sign-in. SignIn sets
	// this field when the sign-in has succeeded, and watch resets it to nil.
	filesBeforeSignIn atomic.Pointer[map[*Process]appserver.LoginFiles]

	asking        *semaphore.Weighted // of limitsAskedAt; not a mutex, so that a caller can stop waiting when a context ends
	limitsAskedAt time.Time           // when Codex was last asked for the limits of the plan
	changes       atomic.Int64        // of the limits, as the processes had counted them when Codex last answered

	// Only the goroutine of watch uses the next five fields.
	lastReported  loginstate.Status                 // the status that was reported last
	oldFiles      map[*Process]appserver.LoginFiles // the login files that each process had before a sign-in, or when the login was signed out
	hasNewSignIn  bool                              // a sign-in has succeeded, and some process may not use it yet
	askedAt       time.Time                         // when the back end was last asked about a failing login
	backendFailed bool                              // the login is failing, and the last answer of the back end was a failure
	told          seenCodex                         // the changes of Codex that were reported last

	thresholds quota.Thresholds // which percentages were reported in each window of the plan
}

// acquireLogin returns the login with a key, perhaps a new login, and counts one more reference.
func (s *Supervisor) acquireLogin(key string) *login {
	return s.logins.acquire(key, func() *login {
		ctx, cancel := context.WithCancel(context.Background())
		l := &login{
			Login: new(loginstate.Login), supervisor: s, key: key, asking: semaphore.NewWeighted(1),
			wake: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{}),
			lastReported: loginstate.Status{State: loginstate.Unknown},
		}
		l.OnChange(l.checkSoon)
		go l.watch(ctx)
		return l
	})
}

// releaseLogin removes a reference. With the last reference, it ends the login's sign-in and watch.
func (s *Supervisor) releaseLogin(l *login) {
	if _, last := s.logins.release(l.key); last {
		reason := errDropped
		if s.opts.Exiting() {
			reason = errCancelled
		}
		l.signIn.stop(reason, true)
		l.cancel()
		<-l.done
	}
}

func (l *login) checkSoon() {
	select {
	case l.wake <- struct{}{}:
	default: // watch is about to check the login
	}
}

// observe records the new status of one of the login's processes, without waiting. wasKnown is whether
// the process knew its account before.
func (l *login) observe(s appserver.Status, wasKnown bool) {
	switch {
	case s.SignedOut:
		l.Fail("", codexrpc.ErrNotLoggedIn, 0)
	case s.AccountFailure != nil && !l.accountKnown():
		l.Fail("", s.AccountFailure, 0)
	case s.AccountKnown && !wasKnown:
		l.Recover(loginstate.Failing, loginstate.SignedOut)
	}
	l.checkSoon()
}

// accountKnown reports whether a process of the login is ready and knows the account. Then a process that
// does not know the account says nothing about the login.
func (l *login) accountKnown() bool {
	return slices.ContainsFunc(l.processes(), func(p *Process) bool {
		s := p.Status()
		return s.State == appserver.StateReady && s.AccountKnown
	})
}

// watch reports changes of the login's state and the use of its plan, until ctx ends. It restarts
// app-servers if somebody has removed the login in their file, or put another login there. While the login
// is signed out, and after a sign-in, any change of the file counts. It follows the limits of the plan. While
// the provider fails, watch finds out when that has ended. It also reports changes of Codex.
func (l *login) watch(ctx context.Context) {
	defer close(l.done)
	ticker := time.NewTicker(loginPoll)
	defer ticker.Stop()
	for {
		if all := l.processes(); len(all) > 0 { // all is empty while the first process of the login is still being made
			for _, p := range all {
				l.reportCodex(ctx, p)
			}
			l.report(all)
			l.reportWindows(all)
			if before := l.filesBeforeSignIn.Swap(nil); before != nil {
				l.oldFiles, l.hasNewSignIn = *before, true
			}
			switch {
			case l.hasNewSignIn, l.lastReported.State == loginstate.SignedOut:
				l.applyNewLogin(all)
			case !l.replaceLogin(all):
				l.followLimits(ctx, all)
				l.askBackend(ctx, all[0])
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-l.wake:
		}
	}
}

// processes returns the login's processes, in the order of their numbers.
func (l *login) processes() []*Process {
	all := slices.DeleteFunc(l.supervisor.processes.values(), func(p *Process) bool { return p.login != l })
	slices.SortFunc(all, func(a, b *Process) int {
		// The keys differ only in the numbers at their ends. A number with fewer digits is smaller.
		return cmp.Or(len(a.creator.key)-len(b.creator.key), strings.Compare(a.creator.key, b.creator.key))
	})
	return all
}

// report logs a change of the login's state or cause, emits an event, and updates the fields that belong to the
// state.
func (l *login) report(all []*Process) {
	now := l.Status()
	before := l.lastReported
	l.lastReported = now
	if now.State == before.State && now.Cause == before.Cause {
		return
	}
	l.backendFailed = l.backendFailed && now.State == loginstate.Failing // false in all other states
	if now.State == loginstate.SignedOut {
		l.oldFiles = make(map[*Process]appserver.LoginFiles)
		for _, p := range all {
			l.oldFiles[p] = p.LoginFiles()
		}
	}
	first, reason, resets := all[0], now.Cause.Advice(), ""
	if !now.ResetsAt.IsZero() {
		resets = now.ResetsAt.UTC().Format(time.RFC3339)
	}
	first.post(event{eventLogin, map[string]any{
		"state": string(now.State), "before": string(before.State), "cause": string(now.Cause), "reason": reason, "resets_at": resets,
	}})
	level, attrs := slog.LevelInfo, []any{"app_server", first.id, "state", now.State, "before", before.State}
	switch now.State {
	case loginstate.Spent:
		level, attrs = slog.LevelWarn, append(attrs, "reason", reason, "resets_at", resets)
	case loginstate.Failing:
		level, attrs = slog.LevelWarn, append(attrs, "reason", reason, "cause", now.Cause)
	case loginstate.SignedOut:
		level, attrs = slog.LevelError, append(attrs, "reason", reason, "codex_home", first.operatorHome()) // without a home, the id identifies the login
	}
	first.Log().Log(context.Background(), level, "the login of the codex app-server has changed", attrs...)
}

// reportWindows emits an event when 80, and when 100 percent of a window of a meter are used.
func (l *login) reportWindows(all []*Process) {
	limits := l.Limits()
	if limits == nil {
		return
	}
	for i := range limits.Meters {
		meter := &limits.Meters[i]
		for _, w := range meter.Windows() {
			if percent := l.thresholds.Pass(meter.ID+" "+w.Name(), w.UsedPercent, w.ResetsAt, time.Now()); percent > 0 {
				all[0].post(event{eventPlan, map[string]any{
					"percent": percent, "used_percent": w.UsedPercent, "plan": limits.Plan, "limit": meter.ID, "limit_name": meter.Name, "window": w.Name(),
					"resets_at": w.ResetsAt.UTC().Format(time.RFC3339),
				}})
			}
		}
	}
}

// replaceLogin restarts app-servers whose login was replaced or removed, and returns whether it has
// restarted any. During a sign-in it does nothing, since Codex may remove the old login first.
func (l *login) replaceLogin(all []*Process) (replaced bool) {
	if now := l.signIn.status(); now != nil && now.UnderWay() {
		return false
	}
	before := make(map[*Process]appserver.LoginFiles)
	for _, p := range all {
		files := p.LoginFiles()
		old := files
		old.Now = files.Serving // applyNewLogin compares the file with the login that was replaced
		before[p] = old
		if !files.Replaced() {
			continue
		}
		if err := p.Restart(); err != nil {
			if p.LoginFiles().Tried == files.Now { // this version was tried; otherwise the next call tries it
				p.Log().Error("codex cannot be started with the new login", "app_server", p.id, "error", err)
			}
			continue
		}
		p.Log().Warn("the login was replaced or removed; codex is started with what is there now", "app_server", p.id)
		replaced = true
	}
	if replaced { // from now on, watch calls applyNewLogin, until the new login serves
		l.oldFiles, l.hasNewSignIn = before, true
	}
	return replaced
}

// applyNewLogin restarts app-servers whose login file has changed. When at least one app-server is
// ready, and none still uses the old login, turns may use the login again.
func (l *login) applyNewLogin(all []*Process) {
	missing := l.lastReported.Cause == loginstate.NotSignedIn // nobody was signed in, so there is no old login
	anyOld, ready := false, 0
	for _, p := range all {
		files, before := p.LoginFiles(), l.oldFiles[p]
		usesOld := before.Ready && before.Serving == files.Serving && !missing
		switch {
		case files.Now != files.Tried && (missing || files.Now != before.Now):
			// The latest start of an app-server used another version of the file. If somebody was
			// signed in, the file must also differ from the version in oldFiles: that version has
			// the old login.
			anyOld = true
			if err := p.Restart(); err == nil { // otherwise the next call tries again
				p.Log().Info("the file of the login has changed; codex is started with it", "app_server", p.id)
			}
		case files.Ready && (usesOld || files.Serving != files.Now):
			anyOld = true
		case files.Ready:
			ready++
		}
	}
	if ready > 0 && !anyOld {
		l.hasNewSignIn = false
		l.changes.Store(-1) // what is known of the plan's limits is that of the old login
		l.SignIn()
		l.report(all)
	}
}

// failingPause is the shortest pause between two questions of askBackend.
const failingPause = 5 * time.Second

// askBackend makes Codex ask the account back end about a login that is failing, every failingPause, so that
// the end of an outage is noticed without a turn. While the back end fails, the login goes on resting. When
// the back end answers again, one turn tries the login. If the back end has answered all the time, only a turn
// can show whether the provider works: turns try the login after its rest.
func (l *login) askBackend(ctx context.Context, p *Process) {
	conn, now := p.Serving(), time.Now()
	if conn == nil || !conn.HasPlan() || !p.Status().AccountKnown { // without its account, the process itself asks again
		return
	}
	if l.Status().State != loginstate.Failing || now.Before(l.askedAt.Add(failingPause)) {
		return
	}
	l.askedAt = now
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	failure := p.CheckBackend(ctx, conn)
	switch recovered := l.backendFailed && failure == nil; {
	case recovered:
		l.backendFailed = false
		// SignedOut: a turn may have been refused since the status was read, but now the back end has answered.
		l.Recover(loginstate.Failing, loginstate.SignedOut)
	case failure != nil && loginstate.CauseOf(failure).State() == loginstate.Failing:
		l.backendFailed = true
		l.Fail("", failure, 2*failingPause)
	}
}

// The shortest pauses between two questions for the limits of a plan: after a change, and otherwise, also for a status.
const changePause, limitsPause = 5 * time.Second, 30 * time.Second

// followLimits asks for the limits of the plan if what is known of them may be wrong: the app-servers have said
// that they have changed, a window was reset since, or a meter is spent, which may be reset early.
func (l *login) followLimits(ctx context.Context, all []*Process) {
	pause, known := limitsPause, l.Limits()
	hasPlan := func(p *Process) bool { conn := p.Serving(); return conn != nil && conn.HasPlan() }
	switch {
	case !slices.ContainsFunc(all, hasPlan):
		return // a login with an API key
	case l.limitChanges(all) != l.changes.Load():
		pause = changePause
	case known != nil && !slices.ContainsFunc(known.Meters, func(m codexrpc.Meter) bool { return l.Spent(&m) || m.ResetSince(known.At) }):
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	all[0].RateLimits(ctx, pause)
}

// limitChanges returns how often the limits of the plan have changed: after answers, and when processes have said so.
func (l *login) limitChanges(all []*Process) int64 {
	sum := l.Answers() // not every back end tells its limits with its answers
	for _, p := range all {
		if conn := p.Serving(); conn != nil {
			sum += conn.LimitChanges()
		}
	}
	return sum
}

// RateLimits returns the limits of the login's plan; nil: not known. If the last question is older than maxAge,
// it asks a ready process, which has to ask its provider, and waits for the answer until ctx ends. A failed
// question counts, too, since the next ones may fail: so not every caller waits for a timeout.
func (p *Process) RateLimits(ctx context.Context, maxAge time.Duration) *codexrpc.RateLimits {
	l, oldest := p.login, time.Now().Add(-maxAge)
	if l.asking.Acquire(ctx, 1) != nil {
		return l.Limits()
	}
	defer l.asking.Release(1)
	if l.limitsAskedAt.After(oldest) { // perhaps by another caller, meanwhile
		return l.Limits()
	}
	all := l.processes()
	for _, p := range all {
		conn := p.Serving()
		if conn == nil || p.Status().State != appserver.StateReady {
			continue
		}
		changes, now := l.limitChanges(all), time.Now()
		told, err := conn.RateLimits(ctx, p.LunaReserve())
		if err == nil {
			l.Learn(told)
			if report := l.supervisor.opts.LimitsTold; report != nil {
				report(p, told)
			}
		}
		if ctx.Err() == nil {
			l.changes.Store(changes)
		}
		if !errors.Is(ctx.Err(), context.Canceled) {
			l.limitsAskedAt = now // not when the answer came, which may be from before the failure that a caller explains
		}
		break
	}
	return l.Limits()
}
