package conversation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/google/uuid"

	"github.com/caddy-codex/caddy-codex/internal/storedbook"
)

// storage is a storage in memory that counts what is stored.
type storage struct {
	certmagic.Storage

	mu     sync.Mutex
	values map[string]string
	stores int
}

func newStorage() *storage { return &storage{values: make(map[string]string)} }

func (s *storage) Load(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.values[key]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(value), nil
}

func (s *storage) Store(_ context.Context, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key] = string(value)
	s.stores++
	return nil
}

// count returns how often something was stored.
func (s *storage) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stores
}

// storedAt is where holdKeys stores keys.
const storedAt = "codex/conversations/node-login.json"

// holdKeys stores the keys of a memory until release is called.
func holdKeys(t *testing.T, s *storage, m *Memory) (release func()) {
	k := NewKeysKeeper(m)
	release = k.Hold(s, "node-login", slog.New(slog.NewTextHandler(t.Output(), nil)))
	k.WaitRestored(time.Hour)
	return release
}

// question returns the chain of a conversation with one message.
func question(t *testing.T, number int) *Chain {
	return chainOf(t, items(t, message("user", fmt.Sprint("PRIVATE ", number))))
}

// keyOf returns the key with a number.
func keyOf(number int) string { return uuid.NewSHA1(uuid.Nil, fmt.Append(nil, number)).String() }

// TestKeysAreStored checks that keys survive restarts, that what cannot be a key is not
// stored, that reasoning and text are not, and that nothing is stored without a change.
func TestKeysAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := newStorage(), NewMemory(1<<20)
		release := holdKeys(t, s, m)
		time.Sleep(5 * keysInterval / 2) // what follows is between two saves
		if s.count() != 0 {
			t.Errorf("without keys it was stored %d times", s.count())
		}
		m.RememberKey(question(t, 1), keyOf(1))
		m.RememberKey(question(t, 2), "PRIVATE")
		m.Remember(question(t, 3).state, thoughts("0:PRIVATE"))
		time.Sleep(2 * keysInterval)
		m.RememberKey(question(t, 1), keyOf(1))
		time.Sleep(2 * keysInterval)
		if s.count() != 1 {
			t.Errorf("it was stored %d times", s.count())
		}
		m.RememberKey(question(t, 4), keyOf(4))
		release()
		for range 2 {
			if len(s.values) != 1 || strings.Contains(s.values[storedAt], "PRIVATE") {
				t.Errorf("stored: %q", s.values)
			}
			m = NewMemory(1 << 20)
			release = holdKeys(t, s, m)
			for number, want := range []string{"", keyOf(1), "", "", keyOf(4)} {
				if got := m.Key(question(t, number)); got != want {
					t.Errorf("%d has the key %q, not %q", number, got, want)
				}
			}
			release()
		}
		if s.count() != 2 {
			t.Errorf("it was stored %d times", s.count())
		}
	})
}

// TestNewerKeysStay checks that a restored key neither replaces a newer one nor displaces
// anything, and is displaced first.
func TestNewerKeysStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := newStorage(), NewMemory(1<<20)
		release := holdKeys(t, s, m)
		for number := range 5 {
			m.RememberKey(question(t, number), keyOf(number))
		}
		release()
		m = NewMemory(4 * (memorySize + len(keyOf(0))))
		m.RememberKey(question(t, 4), keyOf(100))
		m.RememberKey(question(t, 5), keyOf(5))
		release = holdKeys(t, s, m)
		defer release()
		check := func(want ...string) {
			t.Helper()
			for number := range want {
				got := ""
				if e := m.byHash[question(t, number).state]; e != nil { // Key would count as a use
					got = e.Value.(*memory).key
				}
				if got != want[number] {
					t.Errorf("%d has the key %q, not %q", number, got, want[number])
				}
			}
		}
		check("", "", keyOf(2), keyOf(3), keyOf(100), keyOf(5))
		m.RememberKey(question(t, 6), keyOf(6))
		check("", "", "", keyOf(3), keyOf(100), keyOf(5), keyOf(6))
	})
}

// TestStoredKeysAreBounded checks that the newest keys are stored, and no more than may be.
func TestStoredKeysAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := newStorage(), NewMemory(64<<20)
		release := holdKeys(t, s, m)
		const all = maxStoredKeys + 10
		for number := range all {
			m.RememberKey(question(t, number), keyOf(number))
		}
		release()
		if size := len(s.values[storedAt]); size > 300<<10 {
			t.Errorf("%d bytes are stored", size)
		}
		m = NewMemory(64 << 20)
		holdKeys(t, s, m)()
		if len(m.byHash) != maxStoredKeys || m.Key(question(t, 9)) != "" || m.Key(question(t, 10)) != keyOf(10) || m.Key(question(t, all-1)) != keyOf(all-1) {
			t.Errorf("%d keys are restored", len(m.byHash))
		}
	})
}

// TestClearedKeys checks that cleared keys are not stored any more, also if they were to be
// restored later, and that new ones are.
func TestClearedKeys(t *testing.T) {
	for name, before := range map[string]bool{"before": true, "after": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, m := newStorage(), NewMemory(1<<20)
				release := holdKeys(t, s, m)
				m.RememberKey(question(t, 1), keyOf(1))
				release()
				m = NewMemory(1 << 20)
				if before {
					m.Clear()
				}
				release = holdKeys(t, s, m)
				m.Clear()
				m.RememberKey(question(t, 2), keyOf(2))
				release()
				m = NewMemory(1 << 20)
				holdKeys(t, s, m)()
				if m.Key(question(t, 1)) != "" || m.Key(question(t, 2)) != keyOf(2) {
					t.Errorf("stored: %q", s.values)
				}
			})
		})
	}
}

// TestBrokenKeys checks that a document that cannot be keys is set aside.
func TestBrokenKeys(t *testing.T) {
	document := func(version, size int) string {
		text, err := json.Marshal(keysDocument{storedbook.Header{Version: version}, bytes.Repeat([]byte{1}, size)})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, content := range map[string]string{
		"empty": "", "no JSON": "{broken", "null": "null", "no base64": `{"version":1,"keys":"?"}`, "other keys": `{"version":1,"keys":{"a":"b"}}`,
		"another version": document(2, storedKeySize), "cut": document(1, storedKeySize-1),
		"too many": document(1, (maxStoredKeys+1)*storedKeySize),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, m := newStorage(), NewMemory(64<<20)
				s.values[storedAt] = content
				release := holdKeys(t, s, m)
				if len(m.byHash) != 0 {
					t.Errorf("%d keys are restored", len(m.byHash))
				}
				m.RememberKey(question(t, 1), keyOf(1))
				release()
				keys := maps.Clone(s.values)
				m = NewMemory(1 << 20)
				holdKeys(t, s, m)()
				if keys[storedAt+storedbook.AsideSuffix] != content || m.Key(question(t, 1)) != keyOf(1) {
					t.Errorf("stored: %.300q", keys)
				}
			})
		})
	}
}
