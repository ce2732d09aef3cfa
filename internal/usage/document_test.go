package usage

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

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
