package store

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// TestRefusesWrites checks that a server that can be read and refuses to store fails, in four ways,
// that what it has can be read meanwhile, and that it works again afterwards.
func TestRefusesWrites(t *testing.T) {
	for name, outage := range map[string]struct{ begin, end []string }{
		"full":        {[]string{"CONFIG SET maxmemory 1"}, []string{"CONFIG SET maxmemory 0"}},
		"replica":     {[]string{"REPLICAOF 127.0.0.1 1"}, []string{"REPLICAOF NO ONE"}},
		"no replicas": {[]string{"CONFIG SET min-replicas-to-write 1"}, []string{"CONFIG SET min-replicas-to-write 0"}},
		"no disk":     {[]string{`CONFIG SET save "3600 1"`, "BGSAVE"}, []string{"CONFIG SET stop-writes-on-bgsave-error no"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redisserver.Start(t, "--enable-protected-configs", "yes")
			if name == "no disk" {
				gone := t.TempDir()
				server.Do("CONFIG SET dir " + gone)
				must.OK(t, os.Remove(gone))
			}
			r := openRedis(t, server.Addr, false)
			if err := r.Put(t.Context(), "u", id(1), entry("", "kept")); err != nil || r.Fails() {
				t.Fatal(err, r.Fails())
			}
			state := func(want int32) {
				t.Helper()
				must.Happen(t, "the wanted state", func() bool { return r.state.Load() == want })
				if r.Fails() != (want != works) {
					t.Errorf("it fails: %t", r.Fails())
				}
			}
			for _, command := range outage.begin {
				server.Do(command)
			}
			state(refusesWrites)
			if err := r.Put(t.Context(), "u", id(2), entry("", "not kept")); !errors.Is(err, ErrUnavailable) {
				t.Errorf("stored: %v", err)
			}
			if _, err := get(t.Context(), r, "u", id(1)); err != nil {
				t.Fatal(err)
			}
			if err := r.Delete(t.Context(), "u", id(1), 0); (err == nil) != (name == "full") { // deleting makes room
				t.Errorf("deleting an item: %v", err)
			}
			for _, command := range outage.end {
				server.Do(command)
			}
			state(works)
			if err := r.Put(t.Context(), "u", id(2), entry("", "kept")); err != nil {
				t.Error(err)
			}
			if keys := server.Do("KEYS *:check"); strings.Count(keys, ":check") != 1 {
				t.Error(keys)
			}
		})
	}
}

// TestFullDisk checks that a file that cannot grow fails until something is stored again.
func TestFullDisk(t *testing.T) {
	d := openDisk(t, t.TempDir())
	if err := d.Put(t.Context(), "u", id(1), entry("", "kept")); err != nil || d.Fails() {
		t.Fatal(err, d.Fails())
	}
	d.file.db.MaxSize = 1
	large := entry("", strings.Repeat("x", 1<<20))
	if err := d.Put(t.Context(), "u", id(2), large); !errors.Is(err, ErrUnavailable) || !d.Fails() {
		t.Error(err, d.Fails())
	}
	if err := d.Delete(t.Context(), "u", id(3), Whole); !errors.Is(err, ErrNotFound) || !d.Fails() {
		t.Error(err, d.Fails())
	}
	d.file.db.MaxSize = 0
	if err := d.Put(t.Context(), "u", id(2), large); err != nil || d.Fails() {
		t.Error(err, d.Fails())
	}
}
