package recorder

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// requested has a request of a user with a key end, and reports whether it was recorded, and with texts.
func requested(r *Recorder, user, key string) (recorded, texts bool) {
	before := len(r.List(func(string) bool { return true }).Recordings)
	e := r.Begin(Rule{Mode: Off}, time.Now(), func() Head { return Head{User: user, RequestID: "id"} })
	e.Key(key)
	e.End("", nil)
	synctest.Wait()
	all := r.List(func(string) bool { return true }).Recordings
	return len(all) > before, len(all) > before && all[0].Texts
}

// TestSwitches checks whose requests each switch records, how many and how long.
func TestSwitches(t *testing.T) {
	for name, test := range map[string]struct {
		on   Switch
		want string // whether four requests are recorded: by ann with key a, by bob with b, by nobody, and by ann after an hour
	}{
		"everybody":          {Switch{}, "true true true true"},
		"two requests":       {Switch{Requests: 2}, "true true false false"},
		"a user":             {Switch{User: "ann"}, "true false false true"},
		"a user, once":       {Switch{User: "ann", Requests: 1}, "true false false false"},
		"a key":              {Switch{Key: "b"}, "false true false false"},
		"another's key":      {Switch{User: "ann", Key: "b"}, "false false false false"},
		"until":              {Switch{Until: time.Date(2000, 1, 1, 0, 30, 0, 0, time.UTC)}, "true true true false"},
		"one's own":          {Switch{User: "bob", Own: true}, "false true false false"},
		"the nameless's own": {Switch{Own: true}, "false false true false"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New(nil)
				if err := r.Switch(test.on); err != nil {
					t.Fatal(err)
				}
				var got [4]bool
				for i, who := range [][2]string{{"ann", "a"}, {"bob", "b"}, {"", ""}, {"ann", "a"}} {
					if i == 3 {
						time.Sleep(time.Hour)
					}
					got[i], _ = requested(r, who[0], who[1])
				}
				if fmt.Sprint(got) != "["+test.want+"]" {
					t.Errorf("%v, want %s", got, test.want)
				}
				if left := r.List(func(string) bool { return true }).Switches; (test.on.Requests > 0 || !test.on.Until.IsZero()) && len(left) > 0 {
					t.Errorf("it is still on: %+v", left)
				}
			})
		})
	}
}

// TestSwitchTexts: only who asks for texts gets them.
func TestSwitchTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(nil)
		for _, s := range []Switch{{User: "ann", Texts: true}, {User: "bob"}} {
			if err := r.Switch(s); err != nil {
				t.Fatal(err)
			}
		}
		for user, want := range map[string]bool{"ann": true, "bob": false} {
			if recorded, texts := requested(r, user, ""); !recorded || texts != want {
				t.Errorf("%s: recorded %t, with texts %t", user, recorded, texts)
			}
		}
	})
}

// TestRingIsShared: neither many recordings of another user nor large ones cost a user any.
func TestRingIsShared(t *testing.T) {
	for name, flood := range map[string]struct{ n, bytes int }{
		"many": {3 * maxRecordings, 1000}, "large": {30, maxBytes / 8}, "both": {2 * maxRecordings, maxBytes / 100},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(nil)
			r.add(&Recording{User: "ann", Bytes: maxBytes / 12})
			for range 100 {
				r.add(&Recording{User: "ann", Bytes: 1000})
			}
			for range flood.n {
				r.add(&Recording{User: "ben", Bytes: flood.bytes})
			}
			if n := len(r.List(func(user string) bool { return user == "ann" }).Recordings); n != 101 {
				t.Errorf("of 101 recordings, %d are left", n)
			}
			if len(r.ring) > maxRecordings || r.bytes > maxBytes {
				t.Errorf("%d recordings of %d bytes", len(r.ring), r.bytes)
			}
		})
	}
}

// TestStoreHangs: while recordings cannot be stored, they are kept in memory, and hold nothing else.
func TestStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, disk := New(nil), make(chan struct{})
		rule := Rule{Mode: All, Store: func(string, string, []byte) { <-disk }}
		for range 100 {
			r.Begin(rule, time.Now(), func() Head { return Head{User: "ann"} }).End("", nil)
		}
		synctest.Wait()
		if n := len(r.List(func(string) bool { return true }).Recordings); n != 100 || r.live.Held() != 0 {
			t.Errorf("%d recordings, %d bytes are held", n, r.live.Held())
		}
		close(disk)
	})
}

// TestWait: before this Caddy exits, what has ended is stored, unless the disk hangs.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(nil)
		for _, takes := range []time.Duration{time.Second, time.Hour} {
			stored := make(chan bool, 1)
			rule := Rule{Mode: All, Store: func(string, string, []byte) { time.Sleep(takes); stored <- true }}
			r.Begin(rule, time.Now(), func() Head { return Head{} }).End("", nil)
			began := time.Now()
			r.Wait()
			if waited := time.Since(began); len(stored) == 1 != (takes == time.Second) || waited > 2*time.Second {
				t.Errorf("after %v, %d are stored", waited, len(stored))
			}
			<-stored
		}
	})
}

// TestRecordingPanics: a fault ends a recording and nothing else.
func TestRecordingPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(nil)
		rule := Rule{Mode: All, Store: func(string, string, []byte) { panic("a fault") }}
		r.Begin(rule, time.Now(), func() Head { return Head{} }).End("", nil)
		synctest.Wait()
		if n := r.finishing.Load(); n != 0 || r.live.Held() != 0 {
			t.Errorf("%d are not finished, %d bytes are held", n, r.live.Held())
		}
	})
}

// TestManySwitches: there is a bound; a user's own switch replaces that user's former one, and nobody else's.
func TestManySwitches(t *testing.T) {
	r := New(nil)
	for i := range maxSwitches + 1 {
		if err := r.Switch(Switch{User: fmt.Sprint("user", i), Own: true, Requests: 10}); (i >= maxSwitches) != errors.Is(err, ErrTooManySwitches) {
			t.Fatalf("switch %d: %v", i, err)
		}
	}
	r.SwitchOff()
	for _, s := range []Switch{{User: "user0", Own: true}, {User: "user0"}, {Own: true}, {User: "user0", Own: true, Requests: 5}} {
		if err := r.Switch(s); err != nil {
			t.Error(err)
		}
	}
	if on := r.List(func(string) bool { return true }).Switches; len(on) != 3 || on[2].Requests != 5 {
		t.Errorf("%+v", on)
	}
}

// TestLargeBody: of a body that is too large, only the size is recorded, but what follows it is there.
func TestLargeBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(nil)
		e := r.Begin(Rule{Mode: All}, time.Now(), func() Head { return Head{User: "ann"} })
		e.Body(make([]byte, maxMessage+1))
		e.Note(0, "waiting", nil)
		e.End("", nil)
		synctest.Wait()
		entries, err := Parse(r.List(func(string) bool { return true }).Recordings[0].Text())
		if err != nil || len(entries) != 4 || string(entries[1].Message) != `{"cut":4194305}` || entries[2].Note != "waiting" || !strings.Contains(string(entries[0].Message), `"cut":true`) {
			t.Errorf("%+v, %v", entries, err)
		}
	})
}
