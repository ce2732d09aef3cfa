package usage

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

func record(user, id string) Record {
	return Record{
		Time: time.Now(), Duration: 1500 * time.Millisecond, FirstOutput: 250 * time.Millisecond, Route: "chat",
		RequestID: id, User: user, Model: "gpt-5", Mode: turn.ModeXML, Status: 200,
		Usage: codexrpc.Usage{InputTokens: 10, CachedInputTokens: 3, CacheWriteInputTokens: 1, OutputTokens: 5, ReasoningOutputTokens: 2, TotalTokens: 15},
		Tools: turn.Report{
			Started: 3, Flushed: 1, Calls: 2, Truncated: true, Duplicates: 1, Unwritable: 3,
			Aborted: map[usetool.AbortReason]int{usetool.AbortNested: 1, usetool.AbortUnclosed: 1},
		},
	}
}

func TestAccounts(t *testing.T) {
	b := New()
	b.Add(record("alice", "1"))
	failed := record("alice", "2")
	failed.Status = 502
	b.Add(failed)
	b.Add(record("bob", "3"))

	alice := b.Account("alice", 0)
	if alice.Requests != 2 || alice.Errors != 1 || alice.Tokens != (Tokens{30, 20, 6, 2, 10, 4}) {
		t.Errorf("%+v", alice)
	}
	if alice.ToolCalls != (ToolCalls{4, 2, 2, 6}) {
		t.Errorf("%+v", alice.ToolCalls)
	}
	if m := alice.ToolBufferMetrics; m.Started != 6 || m.Flushed != 2 || m.Aborted != 4 || m.ByReason["nested"] != 2 {
		t.Errorf("%+v", m)
	}
	alice.ToolBufferMetrics.ByReason["nested"] = 99
	if b.Account("alice", 0).ToolBufferMetrics.ByReason["nested"] != 2 {
		t.Error("an account shares memory with the book")
	}
	choice := record("alice", "2")
	choice.Choice = 1
	b.Add(choice)
	if more := b.Account("alice", 0); more.Requests != 2 || more.Tokens.InputTokens != 30 {
		t.Errorf("a second choice: %+v", more)
	}
	if nobody := b.Account("nobody", 0); nobody.Requests != 0 || nobody.Object != "usage" {
		t.Errorf("%+v", nobody)
	}
}

func TestRawIsOnesOwn(t *testing.T) {
	b := New()
	for i := range 3 {
		b.Add(record("alice", fmt.Sprint("a", i)))
		b.Add(record("bob", fmt.Sprint("b", i)))
	}
	var ids []string
	for _, e := range b.Raw("alice").Data {
		ids = append(ids, e.RequestID)
	}
	if got := strings.Join(ids, " "); got != "a2 a1 a0" {
		t.Errorf("alice sees %s", got)
	}
	text, err := json.Marshal(b.Raw("nobody"))
	if err != nil || !strings.Contains(string(text), `"data":[]`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestBounds(t *testing.T) {
	b := New()
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range maxUsers {
				r := record(fmt.Sprint("user", worker, "-", i), "id")
				r.Model = strings.Repeat("ü", 10_000)
				b.Add(r)
			}
		})
	}
	wg.Wait()
	if len(b.accounts) > maxUsers+1 || len(b.entries) > 2*maxEntries || len(b.Raw(Everybody).Data) != maxEntries {
		t.Errorf("%d accounts, %d entries", len(b.accounts), len(b.entries))
	}
	var requests int64
	for _, a := range b.accounts {
		requests += a.Requests
	}
	if requests != 4*maxUsers {
		t.Errorf("%d requests were counted", requests)
	}
	if name := b.entries[0].Model; len(name) > maxName {
		t.Errorf("a name of %d bytes is kept", len(name))
	}
}

// TestTurnAllocations checks that a turn of the user and the model of the turn before it takes
// no memory, and that no entry keeps the body that its model is a part of.
func TestTurnAllocations(t *testing.T) {
	b, body := New(), []byte(`{"model":"gpt-5"}`)
	r := record("alice", "id")
	r.Tools = turn.Report{}
	for range 2 * maxEntries { // as many as are kept
		r.Model = string(body)[len(`{"model":"`):][:len("gpt-5")]
		b.Add(r)
	}
	if n := testing.AllocsPerRun(100, func() { b.Add(r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if last := b.entries[len(b.entries)-1]; last.Model != r.Model || unsafe.StringData(last.Model) == unsafe.StringData(r.Model) {
		t.Errorf("the entry has the model %q of the request", last.Model)
	}
}

func TestAll(t *testing.T) {
	b := New()
	for _, user := range []string{"bob", "alice", "bob"} {
		b.Add(record(user, user))
	}
	all := b.Account(Everybody, 0)
	if all.Requests != 3 || all.Tokens.InputTokens != 30 || all.ToolCalls.Total != 6 || all.ToolBufferMetrics.ByReason["nested"] != 3 {
		t.Errorf("%+v", all)
	}
	if len(all.ByUser) != 2 || all.ByUser[0].Name != "alice" || all.ByUser[1].Requests != 2 {
		t.Errorf("by user: %+v", all.ByUser)
	}
	if len(b.Account("bob", 0).ByUser) > 0 {
		t.Error("a user sees others")
	}
	raw := b.Raw(Everybody)
	if len(raw.Data) != 3 || raw.Data[1].User != "alice" || raw.ToolBufferMetrics.Started != 9 || raw.ToolBufferMetrics.ByReason["nested"] != 3 {
		t.Errorf("%+v", raw)
	}
	if e := raw.Data[0]; e.Duration != 1.5 || e.FirstOutput != 0.25 || e.Route != "chat" {
		t.Errorf("%+v", e)
	}
}

func TestByModel(t *testing.T) {
	b := New()
	for i := range maxModels + 5 {
		r := record("alice", "id")
		r.Model = fmt.Sprintf("model-%02d", i)
		b.Add(r)
	}
	a := b.Account("alice", 0)
	if len(a.ByModel) != maxModels+1 || a.ByModel[1].Name != "model-00" || a.ByModel[1].Requests != 1 {
		t.Fatalf("%+v", a.ByModel)
	}
	if other := a.ByModel[0]; other.Name != "(others)" || other.Requests != 5 {
		t.Errorf("the others: %+v", other)
	}
}

func TestByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New() // at midnight
		for range 4 {
			b.Add(record("alice", "id"))
			time.Sleep(30 * time.Minute)
		}
		a := b.Account("alice", 0)
		if len(a.ByHour) != 2 || a.ByHour[0].Requests != 2 || a.ByHour[1].Start-a.ByHour[0].Start != 3600 {
			t.Errorf("by hour: %+v", a.ByHour)
		}
		if len(a.ByDay) != 1 || a.ByDay[0].Requests != 4 || a.ByDay[0].Start != a.ByHour[0].Start {
			t.Errorf("by day: %+v", a.ByDay)
		}
		time.Sleep(46 * time.Hour)
		if a := b.Account("alice", 0); len(a.ByHour) != 1 || len(a.ByDay) != 1 {
			t.Errorf("after two days: %+v, %+v", a.ByHour, a.ByDay)
		}
		time.Sleep(60 * 24 * time.Hour)
		if a := b.Account("alice", 0); len(a.ByHour) != 0 || len(a.ByDay) != 0 || a.Requests != 4 {
			t.Errorf("after two months: %+v", a)
		}
	})
}

// TestPrices: the prices of turns are added, listed and stored, and left out where none is known.
func TestPrices(t *testing.T) {
	b := New()
	for _, price := range []turn.Price{250_000_000, 0, 500_000_000} {
		r := record("alice", "1")
		r.Price, r.Estimated = price, price == 0
		b.Add(r)
	}
	b.Add(record("bob", "2"))
	stored, _ := b.Document(0)
	content, err := json.Marshal(stored)
	must.OK(t, err)
	again := New()
	must.OK(t, again.Restore(content))
	for name, b := range map[string]*Book{"counted": b, "stored": again} {
		account, err := json.Marshal(b.Account("alice", 0))
		if err != nil || strings.Count(string(account), `"price":0.75`) != 6 { // in total, by key, model, API, hour and day
			t.Errorf("%s: %s, %v", name, account, err)
		}
		raw, err := json.Marshal(b.Raw("alice"))
		if err != nil || strings.Count(string(raw), `"price"`) != 2 || strings.Count(string(raw), `"usage_estimated":true`) != 1 || !strings.Contains(string(raw), `"price":0.25`) {
			t.Errorf("%s: %s, %v", name, raw, err)
		}
		if account, err = json.Marshal(b.Account("bob", 0)); err != nil || strings.Contains(string(account), "price") {
			t.Errorf("%s: %s, %v", name, account, err)
		}
	}
}

// refusal returns the record of a request that was refused before its turns.
func refusal(user, id string) Record {
	return Record{Time: time.Now(), Route: "models", RequestID: id, User: user, Status: 404, Code: "unknown_url"}
}

// TestRefusals checks that refused requests count, without a model, and are listed among the turns
// by their time, and that they displace no turns, also after a restart.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		b.Add(record("alice", "1"))
		time.Sleep(time.Second)
		b.Add(refusal("alice", "2"))
		time.Sleep(time.Second)
		b.Add(record("alice", "3"))
		b.Add(Record{User: "alice", RequestID: "not listed", Status: 404, Unlisted: true})
		a, raw := b.Account("alice", 0), b.Raw("alice")
		if a.Requests != 4 || a.Errors != 2 || len(a.ByModel) != 1 || a.ByModel[0].Requests != 2 {
			t.Errorf("%+v", a)
		}
		if len(raw.Data) != 3 || raw.Data[0].RequestID != "3" || raw.Data[1].RequestID != "2" || raw.Data[1].Code != "unknown_url" {
			t.Errorf("%+v", raw.Data)
		}
		time.Sleep(time.Second)
		for range 3 * maxEntries {
			b.Add(refusal("", "flood"))
		}
		document, _ := b.Document(0)
		content, err := json.Marshal(document)
		restored := New()
		if err = errors.Join(err, restored.Restore(content)); err != nil {
			t.Fatal(err)
		}
		for name, b := range map[string]*Book{"before": b, "restored": restored} {
			if all := b.Raw(Everybody).Data; len(all) != maxEntries+2 || all[len(all)-1].RequestID != "1" || all[0].RequestID != "flood" || len(b.refused) > 2*maxEntries {
				t.Errorf("%s: %d entries, %d of refused requests", name, len(all), len(b.refused))
			}
		}
	})
}

// TestClockSetBack checks that turns are counted in their hour and day after a
// clock was far ahead, in the same book and in a stored one.
func TestClockSetBack(t *testing.T) {
	now := time.Now()
	at := func(b *Book, when time.Time) {
		r := record("ann", "1")
		r.Time = when
		b.Add(r)
	}
	ahead := New()
	at(ahead, now.AddDate(70, 0, 0))
	later := New()
	at(later, now)
	restore(t, later, ahead)
	at(later, now)
	at(ahead, now)
	at(ahead, now)
	both := New()
	at(both, now)
	at(both, now)
	b := both.account("ben")
	b.Hours = b.Hours.add(hours, now.AddDate(70, 0, 0).Unix(), Totals{Requests: 1})
	for name, a := range map[string]Account{"one book": ahead.Account("ann", 0), "stored": later.Account("ann", 0), "all": both.Account(Everybody, 0)} {
		if len(a.ByHour) != 1 || a.ByHour[0].Requests != 2 || a.ByHour[0].Start != hours.partStart(now.Unix()) {
			t.Errorf("%s: by hour %+v", name, a.ByHour)
		}
	}
	// A step back over an hour's end is no jump.
	steps := New()
	hour := time.Unix(hours.partStart(now.Unix()), 0)
	at(steps, hour.Add(time.Second))
	at(steps, hour.Add(-time.Second))
	if s := steps.accounts["ann"].Hours; len(s) != 2 || s[0].Requests != 1 || s[1].Requests != 1 {
		t.Errorf("%+v", s)
	}
}

// run simulates a run of a server that stores a new book and does some turns.
func run(t *testing.T, file string, turns int) (after Account, raw Raw) {
	t.Helper()
	b := New()
	release := quota.NewKeeper(b, "the usage", SaveInterval).Hold(slog.New(slog.NewTextHandler(t.Output(), nil)), file)
	for range turns {
		b.Add(record("alice", "id"))
	}
	release()
	return b.Account("alice", 0), b.Raw("alice")
}

func TestRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "usage.json")
		begin := time.Now().Unix()
		for i := 1; i <= 3; i++ {
			a, raw := run(t, file, 2)
			if a.Requests != int64(2*i) || len(raw.Data) != 2*i || a.Since != begin || a.Started != time.Now().Unix() {
				t.Errorf("run %d: %+v, %d entries", i, a, len(raw.Data))
			}
			if a.ToolBufferMetrics.ByReason["nested"] != int64(2*i) || a.ByModel[0].Requests != int64(2*i) {
				t.Errorf("run %d: %+v", i, a)
			}
			time.Sleep(time.Hour)
		}
		if a, _ := run(t, file, 1); a.Requests != 7 || len(a.ByHour) != 4 || a.ByHour[0].Requests != 2 || len(a.ByDay) != 1 {
			t.Errorf("%+v", a)
		}
	})
}

// TestBrokenDocument checks that a document which cannot be read is set aside, and counting begins
// anew; members may be missing or null in one.
func TestBrokenDocument(t *testing.T) {
	for content, broken := range map[string]bool{
		`{"version":1,"id":"x","accounts":[]}`:                                                      true,
		`{"version":1,"id":"x","accounts":{"bob":null,"alice":{"requests":4,"models":{"m":null}}}}`: false,
	} {
		file := filepath.Join(t.TempDir(), "usage.json")
		must.OK(t, os.WriteFile(file, []byte(content), 0o600))
		want := int64(5)
		if broken {
			want = 1
		}
		if a, _ := run(t, file, 1); a.Requests != want {
			t.Errorf("%s: %+v", content, a)
		}
		if aside, err := os.ReadFile(file + quota.AsideSuffix); (err == nil) != broken || broken && string(aside) != content {
			t.Errorf("%s: %q, %v", content, aside, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"id":"x","since":1,"accounts":{"a":{"requests":1,"models":{"m":{"errors":1}},"hours":[{"start":-5}]}},"entries":[{"time":1}]}`))
	f.Add([]byte(`{"version":1,"id":"x","accounts":{"a":{"days":[{"start":9223372036854775807},{"start":-9223372036854775808}]}}}`))
	f.Add([]byte(`{"version":1,"id":"x","windows":[null,{"window_seconds":1,"resets_at":-9,"told":{"-5":1e300},"ran":{"7":1},"costs":{"a":null,"b":-1}},{"window_seconds":1,"resets_at":-8}]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		b := New()
		if b.Restore(content) != nil {
			return
		}
		b.Add(record("a", "id"))
		b.Account(Everybody, 0)
		stored, _ := b.Document(0)
		again, err := json.Marshal(stored)
		must.OK(t, err)
		if err := New().Restore(again); err != nil {
			t.Fatalf("what was stored cannot be read: %v", err)
		}
	})
}
