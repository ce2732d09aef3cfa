package pool

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// leaseOf returns a lease that is released at the end of the test.
func leaseOf(t *testing.T, p *Pool) conversation.Lease {
	t.Helper()
	l, err := p.Lease()
	must.OK(t, err)
	t.Cleanup(l.Release)
	return l
}

// pick calls Pick repeatedly, and returns each member's count and what releases all.
func pick(t *testing.T, l conversation.Lease, times int) (counts map[*appserver.Process]int, done func()) {
	t.Helper()
	counts = make(map[*appserver.Process]int)
	var all []func()
	for range times {
		p, one := l.Pick("")
		counts[p.Process]++
		all = append(all, one)
	}
	done = func() {
		for _, one := range all {
			one()
			one() // once more makes no difference
		}
	}
	t.Cleanup(done)
	return counts, done
}

// Turns go to the member with the fewest turns of all handlers, and in rotation among equals.
func TestLeastBusy(t *testing.T) {
	c, p := startedPool(t, fakes(t, "least busy", 3))
	l := leaseOf(t, p)
	counts, done := pick(t, l, 9)
	for process, n := range counts {
		if n != 3 {
			t.Errorf("the process %d has %d turns of 9", process.Status().PID, n)
		}
	}
	if len(counts) != 3 || len(c.members) != 3 {
		t.Fatalf("%d processes of %d were picked", len(counts), len(c.members))
	}
	done()
	// One after the other they go round, rather than all to the first.
	seen := make(map[*appserver.Process]bool)
	for range 3 {
		best, gone := l.Peek("")
		gone()
		process, end := l.Pick("")
		seen[process.Process] = true
		end()
		if best.Process != process.Process {
			t.Error("another one is picked than it said")
		}
	}
	if len(seen) != 3 {
		t.Errorf("turns one after the other went to %d processes", len(seen))
	}
	// Another handler's turns on a shared process count.
	other := poolOf(t, c, fakes(t, "least busy", 2))
	counts, done = pick(t, leaseOf(t, other), 4)
	defer done()
	idle, end := l.Pick("")
	defer end()
	if counts[idle.Process] != 0 {
		t.Error("a turn went to a busy process while another was idle")
	}
}

// Turns that start at the same time spread over the members, too.
func TestLeastBusyAtOnce(t *testing.T) {
	_, p := startedPool(t, fakes(t, "at once", 2))
	l := leaseOf(t, p)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, done := l.Pick("")
			t.Cleanup(done)
		})
	}
	wg.Wait()
	for i, m := range p.members {
		if n := m.process.Load().turns.Load(); n != 10 {
			t.Errorf("member %d has %d turns of 20", i, n)
		}
	}
}

// A member that does not run gets no turns until it is ready again.
func TestPickPassesOver(t *testing.T) {
	_, p := startedPool(t, fakes(t, "passed over", 2))
	l := leaseOf(t, p)
	picked, done := l.Pick("")
	done()
	victim := picked.Process
	before := victim.Status()
	must.OK(t, syscall.Kill(before.PID, syscall.SIGKILL))
	must.Happen(t, "the death was noticed", func() bool {
		now := victim.Status() // it may be ready again
		return now.State != appserver.StateReady || now.PID != before.PID
	})
	for victim.Status().State != appserver.StateReady {
		now, done := l.Pick("")
		if now.Process == victim && victim.Status().State != appserver.StateReady {
			t.Fatalf("a turn was given to a process that is %s", victim.Status().State)
		}
		done()
		time.Sleep(time.Millisecond)
	}
	if counts, _ := pick(t, l, 2); counts[victim] != 1 {
		t.Error("the process that is back gets no turns")
	}
}

// A member that hangs gets no turns.
func TestPickPassesOverHung(t *testing.T) {
	t.Parallel() // a hang is noticed after some seconds
	_, p := startedPool(t, fakes(t, "hung", 2))
	l := leaseOf(t, p)
	picked, done := l.Pick("")
	done()
	hung := picked.Process
	pid := hung.Status().PID
	must.OK(t, syscall.Kill(pid, syscall.SIGSTOP))
	must.Happen(t, "the hang is noticed", func() bool { return hung.Status().State == appserver.StateUnresponsive })
	if counts, _ := pick(t, l, 4); counts[hung] != 0 {
		t.Errorf("it gets %d of 4 turns", counts[hung])
	}
	must.OK(t, syscall.Kill(pid, syscall.SIGCONT))
}

// A member that has just failed is avoided if there is another one.
func TestPickAvoids(t *testing.T) {
	_, p := startedPool(t, fakes(t, "avoided", 2))
	l := leaseOf(t, p)
	for range 4 {
		failed, done := l.Pick("")
		other, otherDone := l.Pick("", failed.Process)
		if other == failed {
			t.Error("the one that failed was picked again")
		}
		done()
		otherDone()
	}
	_, sole := startedPool(t, fakes(t, "alone", 1))
	l = leaseOf(t, sole)
	failed, done := l.Pick("")
	defer done()
	again, done := l.Pick("", failed.Process)
	defer done()
	if again != failed {
		t.Error("there is another")
	}
}

// A handler whose configuration has ended, such as that of a WebSocket, knows the states of the
// processes that another configuration has.
func TestPickAfterReload(t *testing.T) {
	s, servers := newSupervisor(t), fakes(t, "reloaded", 2)
	c, pools := newConfiguration(t, s, servers)
	next, others := newConfiguration(t, s, servers)
	c.Start()
	next.Start()
	c.cleanup()
	l := leaseOf(t, pools[0])
	for _, m := range others[0].members {
		avoided := m.process.Load().Process
		must.Happen(t, "it is ready", func() bool { return avoided.Status().State == appserver.StateReady })
		for range 2 {
			picked, done := l.Pick("", avoided)
			if picked.Process == avoided {
				t.Error("a process that was to be avoided is picked")
			}
			done()
		}
	}
}

// TestPickRests checks that a member says why its login rested when it was picked.
func TestPickRests(t *testing.T) {
	_, p := startedPool(t, fakes(t, "resting", 2))
	l := leaseOf(t, p)
	picked, done := l.Pick("")
	done()
	if picked.Rests != nil {
		t.Errorf("a login that was not used rests: %v", picked.Rests)
	}
	spent := &codexrpc.TurnError{Code: codexrpc.CodeUsageLimit}
	picked.Login.Fail("", spent, 0)
	again, done := l.Pick("")
	done()
	if !errors.Is(again.Rests, spent) {
		t.Errorf("the login of both, which is spent, rests because of %v", again.Rests)
	}
}

// TestPickFailed checks that a member that will not start again is not said to rest, although its
// provider had failed before: a client would wait for the end of that rest.
func TestPickFailed(t *testing.T) {
	c, pools := newConfiguration(t, newSupervisor(t), []Server{{Config: appserver.Config{Command: []string{"/no/such/program", "app-server"}}, Processes: 2}})
	c.Start()
	l := leaseOf(t, pools[0])
	must.Happen(t, "both have failed", func() bool {
		s := statusesOfPool(t, pools[0])
		return len(s) == 2 && s[0].Final && s[1].Final
	})
	picked, done := l.Pick("")
	done()
	picked.Login.Fail("", &codexrpc.TurnError{Code: "rateLimitExceeded"}, time.Minute)
	picked, done = l.Pick("")
	done()
	if picked.Rests != nil || !picked.Process.Status().Final {
		t.Errorf("%+v rests because of %v", picked.Process.Status(), picked.Rests)
	}
}

// TestLogins checks that the processes of an app_server count as one login.
func TestLogins(t *testing.T) {
	other := Server{Config: appserver.Config{Command: []string{"/no/such/program", "app-server"}}}
	for _, c := range []struct {
		servers         []Server
		members, logins int
	}{
		{[]Server{other}, 1, 1},
		{fakes(t, "one login", 2), 2, 1},
		{append(fakes(t, "two logins", 2), other), 3, 2},
	} {
		_, pools := newConfiguration(t, newSupervisor(t), c.servers)
		if l := leaseOf(t, pools[0]); l.Len() != c.members || l.Logins() != c.logins {
			t.Errorf("%d members with %d logins, want %d with %d", l.Len(), l.Logins(), c.members, c.logins)
		}
	}
}

// statusesOfPool returns the states of the members that run.
func statusesOfPool(t *testing.T, p *Pool) (all []appserver.Status) {
	for _, m := range leaseOf(t, p).Members() {
		all = append(all, m.Process.Status())
	}
	return all
}

func TestStatuses(t *testing.T) {
	servers := append(fakes(t, "statuses", 2), Server{Config: appserver.Config{Command: []string{"/no/such/program"}}})
	c, pools := newConfiguration(t, newSupervisor(t), servers)
	p := pools[0]
	if all := leaseOf(t, p).Members(); len(all) > 0 {
		t.Errorf("before the start: %v", all)
	}
	c.Start()
	must.Happen(t, "two are ready and one is not", func() bool {
		s := statusesOfPool(t, p)
		return len(s) == 3 && s[0].State == appserver.StateReady && s[1].State == appserver.StateReady &&
			s[0].PID != s[1].PID && s[2].State == appserver.StateBackoff && s[2].Reason != ""
	})
}

// A reload stops neither the processes of a request that has not picked one yet, nor the
// process of a turn. The other processes end immediately.
func TestLeaseAndReload(t *testing.T) {
	c, p := startedPool(t, fakes(t, "old pool", 3))
	l := leaseOf(t, p)
	c.cleanup()
	pooled := func() int { return len(c.supervisor.All()) }
	if n := pooled(); n != 3 {
		t.Fatalf("%d processes under a lease", n)
	}
	picked, done := l.Pick("")
	before := picked.Process.Status()
	l.Release()
	l.Release()
	must.Happen(t, "the processes without turns ended", func() bool { return pooled() == 1 })
	if now := picked.Process.Status(); now.State != appserver.StateReady || now.PID != before.PID {
		t.Errorf("the process of a turn was %+v, is %+v", before, now)
	}
	done()
	must.Happen(t, "the last process ended", func() bool { return picked.Process.Status().State == appserver.StateStopped })
	if n := pooled(); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

// With other options of a pool, missing processes start, surplus ones stop, and others continue.
func TestReloadOfAPool(t *testing.T) {
	s := newSupervisor(t)
	pids := func(config *configuration) map[int]bool {
		all := make(map[int]bool)
		for _, m := range config.members {
			all[pid(t, m)] = true
		}
		return all
	}
	running, _ := newConfiguration(t, s, fakes(t, "resized", 2))
	running.Start()
	before := pids(running)
	for _, processes := range []int{4, 1, 3} {
		next, _ := newConfiguration(t, s, fakes(t, "resized", processes))
		next.Start()
		running.cleanup()
		after, kept := pids(next), 0
		for id := range after {
			if before[id] {
				kept++
			}
		}
		if len(after) != processes || kept != min(processes, len(before)) || len(s.All()) != processes {
			t.Errorf("of %d processes %d are kept among %d, %d run", len(before), kept, len(after), len(s.All()))
		}
		running, before = next, after
	}
}

// When the program exits, there are no leases any more.
func TestNoLeaseAtExit(t *testing.T) {
	exiting := false
	c, p := startedPool(t, fakes(t, "exit", 1))
	c.supervisor.opts.Exiting = func() bool { return exiting }
	leaseOf(t, p).Release()
	exiting = true
	if _, err := p.Lease(); !errors.Is(err, turn.ErrShutdown) {
		t.Error(err)
	}
}

// idlePool returns a pool with so many processes, none of which is started.
func idlePool(b *testing.B, processes int) *Pool {
	s := newSupervisor(b)
	c, pools := newConfiguration(b, s, []Server{{Config: appserver.Config{Command: []string{"x"}}, Processes: processes}})
	for i, m := range pools[0].members {
		fake := s.processes.acquire(m.key, func() *Process { return newProcess(m) })
		fake.events = make(chan event)
		close(fake.done) // nothing emits events
		fake.turns.Store(int64(i))
		m.process.Store(fake)
	}
	b.Cleanup(func() {
		for _, m := range c.members {
			m.process.Store(nil)
			m.release()
		}
	})
	return pools[0]
}

// BenchmarkLease measures what a request with a turn costs this package, with one process.
func BenchmarkLease(b *testing.B) {
	p := idlePool(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		l, err := p.Lease()
		must.OK(b, err)
		_, done := l.Pick("")
		l.Release()
		done()
	}
}

// Pools with the same processes, also of two configurations, have the memory of these together.
func TestMemoryOfPools(t *testing.T) {
	servers := func(command string, limit int64) []Server {
		return []Server{{Config: appserver.Config{Command: []string{command}, MaxMemory: limit}}}
	}
	var all []*claims.Memory
	s := newSupervisor(t)
	for _, one := range [][]Server{servers("a", 0), servers("a", 0), servers("b", 0), servers("a", 1<<20)} {
		_, pools := newConfiguration(t, s, one)
		memory, release := pools[0].Memory(1 << 30)
		t.Cleanup(release)
		all = append(all, memory)
	}
	if all[0] != all[1] || all[0] == all[2] || all[0] == all[3] {
		t.Errorf("%p", all)
	}
}

// TestSameServer checks that a pool refuses a server that it has already.
func TestSameServer(t *testing.T) {
	c, _ := newConfiguration(t, newSupervisor(t))
	same := Server{Config: appserver.Config{Command: []string{"x"}}}
	_, err := c.Pool([]Server{same, {Config: appserver.Config{Command: []string{"y"}}}, same}, Policy{})
	if err == nil || !strings.HasPrefix(err.Error(), "app_server 3 is the same") {
		t.Errorf("%v", err)
	}
}
