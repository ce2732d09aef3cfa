package objects

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/claims"
)

// unlimited returns a claim for any number of bytes.
func unlimited() *claims.Claim {
	return claims.NewBudget(1<<60, 1<<60, claims.NewCrowd(nil)).Claim("ann")
}

// read reads a log from a number to its end.
func read(t *testing.T, l *Log, from int64) (all []string) {
	for {
		events, changed, err := l.Next(from, unlimited())
		if err != nil {
			t.Error(err)
			return all
		}
		for _, e := range events {
			all = append(all, e.Name+" "+string(e.Data))
		}
		from += int64(len(events))
		if len(events) > 0 {
			continue
		}
		if changed == nil {
			return all
		}
		<-changed
	}
}

// TestLogReaders: whoever reads from any number, at whatever time, reads the same events.
func TestLogReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLogs(logLimits{LogBytes: 1 << 20, TotalBytes: 1 << 20, KeepTime: time.Hour}).Open("ann", "a")
		const events = 700
		var want []string
		for i := range events {
			want = append(want, fmt.Sprintf("e%d d%d", i, i))
		}
		var all sync.WaitGroup
		for from := range events + 1 {
			all.Go(func() {
				time.Sleep(time.Duration(rand.N(2 * events)))
				if got := read(t, l, int64(from)); fmt.Sprint(got) != fmt.Sprint(want[from:]) {
					t.Errorf("from %d: %q", from, got)
				}
			})
		}
		buffer := make([]byte, 0, 10)
		for i := range events {
			buffer = fmt.Appendf(buffer[:0], "d%d", i)
			l.Append(fmt.Sprintf("e%d", i), buffer)
			time.Sleep(time.Nanosecond)
		}
		l.End()
		all.Wait()
	})
}

// held returns the bytes of all logs.
func held(s *Logs) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// TestLogExpiry: a log is another user's never, and gone when its time is over.
func TestLogExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLogs(logLimits{LogBytes: 1 << 10, TotalBytes: 1 << 20, KeepTime: time.Minute})
		l := s.Open("ann", "a")
		l.Append("e", []byte("d"))
		time.Sleep(time.Hour)
		if s.Find("bob", "a") != nil || s.Find("ann", "a") != l {
			t.Error("before its end")
		}
		l.End()
		time.Sleep(time.Minute - 1)
		if s.Find("ann", "a") != l {
			t.Error("gone too early")
		}
		time.Sleep(2 * time.Nanosecond)
		if _, _, err := l.Next(0, unlimited()); s.Find("ann", "a") != nil || !errors.Is(err, ErrDropped) || held(s) != 0 {
			t.Errorf("after its time: %v, %d bytes", err, held(s))
		}
	})
}

// TestLogLimits: the oldest events go first, and what others have ended before that. The
// limits hold at all times.
func TestLogLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := logLimits{LogBytes: 2000, TotalBytes: 5000, KeepTime: time.Hour}
		s := newLogs(limits)
		check := func() {
			t.Helper()
			var sum int64
			for _, l := range s.byID {
				if l.size > limits.LogBytes {
					t.Errorf("a log has %d bytes", l.size)
				}
				sum += l.size
			}
			if sum != s.size || sum > limits.TotalBytes {
				t.Errorf("all have %d bytes, counted as %d", sum, s.size)
			}
		}
		data := make([]byte, 400)
		first := s.Open("ann", "first")
		for range 10 {
			first.Append("e", data)
			check()
		}
		if _, _, err := first.Next(5, unlimited()); !errors.Is(err, ErrDropped) {
			t.Error(err)
		}
		if events, _, err := first.Next(6, unlimited()); err != nil || len(events) != 4 {
			t.Error(len(events), err)
		}
		first.End()
		second, third, fourth := s.Open("ann", "second"), s.Open("ann", "third"), s.Open("ann", "fourth")
		for range 10 {
			for _, l := range []*Log{second, third, fourth} {
				l.Append("e", data)
				check()
			}
		}
		if s.Find("ann", "first") != nil {
			t.Error("one that has ended is kept at the expense of those that go on")
		}
		second.Append("e", make([]byte, limits.LogBytes))
		check()
		if _, changed, err := second.Next(11, unlimited()); err != nil || changed == nil {
			t.Error("after an event that fits nowhere:", err)
		}
		s.Forget("second")
		second.Append("e", data)
		second.End()
		check()
		if _, _, err := second.Next(11, unlimited()); !errors.Is(err, ErrDropped) {
			t.Error("forgotten:", err)
		}
		third.End()
		fourth.End()
		time.Sleep(2 * time.Hour)
		if held(s) != 0 {
			t.Error(held(s), "bytes are left")
		}
	})
}

// TestLogForgottenWhileRead: whoever reads a log that is forgotten after its end reads it to the end,
// and nobody finds it.
func TestLogForgottenWhileRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLogs(logLimits{LogBytes: 1000, TotalBytes: 1000, KeepTime: time.Hour})
		l := s.Open("ann", "r")
		l.Append("e", []byte("last"))
		l.End()
		s.Forget("r")
		if s.Find("ann", "r") != nil {
			t.Error("it is found")
		}
		if events, _, err := l.Next(0, unlimited()); len(events) != 1 || err != nil {
			t.Errorf("%v, %v", events, err)
		}
		if events, changed, err := l.Next(1, unlimited()); events != nil || changed != nil || err != nil {
			t.Errorf("its end: %v, %v", events, err)
		}
		time.Sleep(time.Minute)
		if held(s) != 0 {
			t.Error(held(s), "bytes are left")
		}
	})
}

// TestShareOfLogs checks that a user who fills the memory, with logs that have ended or go on,
// loses own events only.
func TestShareOfLogs(t *testing.T) {
	for name, ended := range map[string]bool{"ended": true, "go on": false} {
		s := newLogs(logLimits{LogBytes: 4000, TotalBytes: 10_000, KeepTime: time.Hour})
		other, over := s.Open("b", "b1"), s.Open("b", "b2")
		for _, l := range []*Log{other, over} {
			l.Append("x", make([]byte, 1000))
		}
		over.End()
		for i := range 20 {
			l := s.Open("a", fmt.Sprint(i))
			for range 30 {
				l.Append("x", make([]byte, 100))
			}
			if ended {
				l.End()
			}
		}
		if s.size > 10_000 || s.bytesByUser["b"] < 2000 {
			t.Errorf("%s: %d bytes, %d of them of the other user", name, s.size, s.bytesByUser["b"])
		}
		for _, l := range []*Log{other, over} {
			if _, _, err := l.Next(0, unlimited()); err != nil {
				t.Errorf("%s: another user has lost events: %v", name, err)
			}
		}
		other.Append("y", make([]byte, 1000))
		if events, _, err := other.Next(1, unlimited()); len(events) != 1 || err != nil {
			t.Errorf("%s: another user cannot add an event: %v", name, err)
		}
		s.mu.Lock()
		for _, l := range s.byID {
			s.remove(l)
		}
		s.mu.Unlock()
		if len(s.bytesByUser) > 0 || s.size != 0 {
			t.Errorf("%s: %d bytes are left, %v", name, s.size, s.bytesByUser)
		}
	}
}
