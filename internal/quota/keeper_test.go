package quota

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

type tally struct {
	mu      sync.Mutex
	n       int
	changes uint64
}

type tallyDocument struct {
	Version int `json:"version"`
	N       int `json:"n"`
}

func (b *tally) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n += n
	b.changes++
}

func (b *tally) Document(since uint64) (any, uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changes == since {
		return nil, since
	}
	return tallyDocument{DocumentVersion, b.n}, b.changes
}

func (b *tally) Restore(content []byte) error {
	var d tallyDocument
	if err := json.Unmarshal(content, &d); err != nil {
		return err
	}
	if d.N < 0 {
		return errors.New("negative")
	}
	b.add(d.N)
	return nil
}

func stored(t *testing.T, file string) int {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		return -1
	}
	var d tallyDocument
	must.OK(t, json.Unmarshal(content, &d))
	return d.N
}

// TestFlush checks that what is counted after the last release is stored by Flush, and that Flush
// stores nothing of a book that was never held.
func TestFlush(t *testing.T) {
	book, file := new(tally), filepath.Join(t.TempDir(), "book.json")
	k := NewKeeper(book, "the tally", every)
	k.Flush()
	release := hold(t, k, file)
	book.add(1)
	k.Flush()
	if n := stored(t, file); n != -1 {
		t.Errorf("%d is stored while the book is held", n)
	}
	release()
	book.add(1)
	if n := stored(t, file); n != 1 {
		t.Errorf("%d is stored by the release", n)
	}
	k.Flush()
	if n := stored(t, file); n != 2 {
		t.Errorf("%d is stored by Flush", n)
	}
}

const every = time.Minute

func hold(t *testing.T, k *Keeper, file string, before ...string) (release func()) {
	return k.Hold(slog.New(slog.NewTextHandler(t.Output(), nil)), file, before...)
}

// TestReloads checks that a book is restored once, whoever holds it, that it is stored while it is
// held and when the last one releases it, and only if it has changed.
func TestReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file, before := filepath.Join(dir, "codex", "book.json"), filepath.Join(dir, "before.json")
		must.OK(t, os.WriteFile(before, []byte(`{"version":1,"id":"of an earlier release","n":5}`), 0o600))
		b := new(tally)
		k := NewKeeper(b, "the tally", every)
		release := hold(t, k, file, before)
		for range 4 {
			b.add(1)
			next := hold(t, k, file, before)
			release()
			release()
			release = next
		}
		time.Sleep(every + time.Second)
		synctest.Wait()
		if got := stored(t, file); got != 9 {
			t.Errorf("%d are stored", got)
		}
		must.OK(t, os.Remove(file))
		time.Sleep(every)
		synctest.Wait()
		if stored(t, file) != -1 {
			t.Error("it is stored without a change")
		}
		b.add(1)
		release()
		if got := stored(t, file); got != 10 {
			t.Errorf("%d are stored at the end", got)
		}
		again := new(tally)
		hold(t, NewKeeper(again, "the tally", every), file, before)()
		if again.n != 10 {
			t.Errorf("%d are restored", again.n)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	})
}

// TestBroken checks that what cannot be read is set aside, and counting begins anew.
func TestBroken(t *testing.T) {
	for name, content := range map[string]string{
		"no JSON": `{"version":1,`, "empty": "", "other JSON": `[1]`, "newer": `{"version":2,"n":3}`,
		"refused": `{"version":1,"n":-1}`, "too large": strings.Repeat(" ", maxDocument+1),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "book.json")
			must.OK(t, os.WriteFile(file, []byte(content), 0o600))
			b := new(tally)
			release := hold(t, NewKeeper(b, "the tally", every), file)
			b.add(1)
			release()
			aside, err := os.ReadFile(file + AsideSuffix)
			if err != nil || string(aside) != content || stored(t, file) != 1 {
				t.Errorf("%d bytes aside, %v; %d are stored", len(aside), err, stored(t, file))
			}
		})
	}
}

// TestUnreadable checks that a file which cannot be read now is neither overwritten nor forgotten.
func TestUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "book.json")
		must.OK(t, os.Mkdir(file, 0o700))
		b := new(tally)
		release := hold(t, NewKeeper(b, "the tally", every), file)
		b.add(1)
		time.Sleep(3 * every)
		synctest.Wait()
		must.OK(t, errors.Join(os.Remove(file), os.WriteFile(file, []byte(`{"version":1,"n":5}`), 0o600)))
		time.Sleep(every)
		release()
		if got := stored(t, file); got != 6 {
			t.Errorf("%d are stored", got)
		}
	})
}

// TestClockIsNotSet: by a clock in 1970, no document is loaded.
func TestClockIsNotSet(t *testing.T) {
	if err := checkClock(time.Unix(1000, 0)); err == nil || !strings.Contains(err.Error(), "1970-01-01") {
		t.Errorf("in 1970: %v", err)
	}
	if err := checkClock(time.Now()); err != nil {
		t.Error(err)
	}
}
