package quota

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// Counts survive the end of a process, also one that is killed in the middle of a turn.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "codex", "keys.json")
		start := func(file string) (l *Limits, stop func()) {
			ledger := NewLedger(time.Now)
			stop = NewKeeper(ledger, "the use of keys", SaveInterval).Hold(slog.New(slog.DiscardHandler), file)
			return NewLimits(ledger, 0, false), stop
		}
		k := &Key{Account: "k", Limits: []Limit{{Requests, 10, sliding(t, time.Hour), 0}, {Tokens, 100, calendar(t, month), 0}}}
		shares := []Limit{{PlanShare, 100, PlanWindow("5h codex", time.Now().Add(time.Minute)), 0}}
		l, stop := start(file)
		admitted(l, k, 3)
		g, err := reserve(t, l, k, 30)
		must.OK(t, err)
		g.Settle(20, 30, shares)
		stop()

		l, stop = start(file)
		if s := statesOf(l, k.With(shares)); s[0].Used != 4 || s[1].Used != 20 || s[2].Used != 30 {
			t.Fatalf("after an exit: %+v", s)
		}
		if got := admitted(l, k, 5); got != 5 {
			t.Errorf("%d more requests", got)
		}
		if _, err := reserve(t, l, k, 30); err != nil { // it runs when the process is killed
			t.Fatal(err)
		}
		time.Sleep(2 * SaveInterval)
		synctest.Wait()
		content, err := os.ReadFile(file)
		must.OK(t, err)
		stop()

		must.OK(t, os.WriteFile(file, content, 0o600))
		l, stop = start(file)
		defer stop()
		if s := statesOf(l, k); s[0].Used != 10 || s[1].Used != 50 {
			t.Errorf("after a kill: %+v", s)
		}
		time.Sleep(time.Minute)
		admitted(l, k, 1)
		if d, _ := l.engine.(*Ledger).Document(0); len(d.(*document).Accounts["k"]) != 2 {
			t.Errorf("a window that has ended is stored: %+v", d)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"id":"x","at":1,"accounts":{"k":{"requests 1m":[[1,2]],"tokens day":[[-5,7],[9223372036854775807,1]]}}}`))
	f.Add([]byte(`{"version":1,"id":"x","at":1,"accounts":{"k":{"plan_share 4102444800 5h codex":[[0,2]],"plan_share 1 7d codex":[[3,4]],"plan_share -5  ":[[0,1]]}}}`))
	f.Add([]byte(`{"version":1,"accounts":{"k":null,"":{"tokens month":null}}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		ledger := NewLedger(time.Now)
		if ledger.Restore(content) != nil {
			return
		}
		k := &Key{Account: "k", Limits: []Limit{
			{Requests, 1, sliding(t, time.Minute), 0}, {Tokens, 1, calendar(t, day), 0}, {PlanShare, 1, PlanWindow("5h codex", time.Unix(4102444800, 0)), 0},
		}}
		l := NewLimits(ledger, 0, false)
		_ = begin(l, k)
		statesOf(l, k)
		d, _ := ledger.Document(0)
		again, err := json.Marshal(d)
		must.OK(t, err)
		if err := NewLedger(time.Now).Restore(again); err != nil {
			t.Fatalf("what was stored cannot be read: %v", err)
		}
	})
}
