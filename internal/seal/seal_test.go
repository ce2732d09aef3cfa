package seal

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func sealerOf(key string) Sealer {
	return func(context.Context) (string, error) { return key, nil }
}

// TestSeal checks that a text is opened with its key alone, for the same user alone, and only unchanged.
func TestSeal(t *testing.T) {
	ctx, first, second := t.Context(), newKey(), newKey()
	s := sealerOf(first)
	for _, content := range []string{"", "a", "ü\x00\xff", strings.Repeat("long ", 1000)} {
		sealed, err := s.Seal(ctx, "ann", []byte(content))
		if err != nil || !IsSealed(sealed) || strings.Contains(sealed, "long") {
			t.Fatalf("%v: %q", err, sealed)
		}
		if got, err := sealerOf(first).Open(ctx, "ann", sealed); err != nil || string(got) != content {
			t.Errorf("%q, %v; want %q", got, err, content)
		}
		if _, err := s.Open(ctx, "bob", sealed); !errors.Is(err, ErrUnreadable) {
			t.Errorf("another user: %v", err)
		}
		if _, err := sealerOf(second).Open(ctx, "ann", sealed); !errors.Is(err, ErrUnreadable) {
			t.Errorf("another key: %v", err)
		}
	}
	sealed, _ := s.Seal(ctx, "ann", []byte("some content"))
	if again, _ := s.Seal(ctx, "ann", []byte("some content")); again == sealed {
		t.Error("two sealed texts are the same")
	}
	for i := range sealed {
		for _, b := range []byte("Az09-_ \n\x00") {
			if changed := sealed[:i] + string(b) + sealed[i+1:]; changed != sealed {
				if _, err := s.Open(ctx, "ann", changed); !errors.Is(err, ErrUnreadable) {
					t.Fatalf("byte %d is %q: %v", i, b, err)
				}
			}
		}
		if _, err := s.Open(ctx, "ann", sealed[:i]); !errors.Is(err, ErrUnreadable) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
}

func TestNoKey(t *testing.T) {
	failure := errors.New("no key")
	s := Sealer(func(context.Context) (string, error) { return "", failure })
	if _, err := s.Seal(t.Context(), "", nil); !errors.Is(err, failure) {
		t.Error(err)
	}
	if _, err := s.Open(t.Context(), "", "x"); !errors.Is(err, failure) {
		t.Error(err)
	}
	for _, key := range []string{"", "abcd", strings.Repeat("z", 64), strings.Repeat("a", 66)} {
		if _, err := sealerOf(key).Seal(t.Context(), "", nil); err == nil || errors.Is(err, ErrUnreadable) {
			t.Errorf("with the key %q: %v", key, err)
		}
	}
}

// FuzzOpen opens any text: it is never opened, unless it was sealed.
func FuzzOpen(f *testing.F) {
	s := sealerOf(strings.Repeat("07", keyBytes))
	sealed, _ := s.Seal(f.Context(), "ann", []byte("content"))
	f.Add(sealed, "ann")
	f.Add(sealed+"=", "ann")
	f.Add(prefix, "")
	f.Add(prefix+"AAAA", "")
	f.Add("codex-sealed-2."+sealed[len(prefix):], "ann")
	f.Fuzz(func(t *testing.T, text, user string) {
		content, err := s.Open(t.Context(), user, text)
		if err == nil && (text != sealed || user != "ann" || string(content) != "content") {
			again, _ := s.Seal(t.Context(), user, content) // from a corpus of another run
			if len(again) != len(text) {
				t.Errorf("opened %q for %q: %q", text, user, content)
			}
		}
		if err != nil && !errors.Is(err, ErrUnreadable) {
			t.Error(err)
		}
	})
}

// memory is a Storage.
type memory struct {
	lock   sync.Mutex // of Lock
	mu     sync.Mutex
	files  map[string]string
	broken error
}

func (m *memory) Lock(context.Context, string) error {
	m.lock.Lock()
	return nil
}

func (m *memory) Unlock(context.Context, string) error {
	m.lock.Unlock()
	return nil
}

func (m *memory) Store(_ context.Context, key string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken == nil {
		m.files = maps.Clone(m.files)
		if m.files == nil {
			m.files = map[string]string{}
		}
		m.files[key] = string(value)
	}
	return m.broken
}

func (m *memory) Load(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.files[key]
	if m.broken == nil && !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(value), m.broken
}

func logTo(out *bytes.Buffer) *slog.Logger { return slog.New(slog.NewTextHandler(out, nil)) }

// TestKeysLast checks that servers with one storage, also after a restart, read what each other has sealed,
// even if all begin at once.
func TestKeysLast(t *testing.T) {
	var storage memory
	var log bytes.Buffer
	sealed := make([]string, 8)
	var all sync.WaitGroup
	for i := range sealed {
		all.Go(func() { sealed[i], _ = NewSealer(&storage, nil, logTo(&log)).Seal(t.Context(), "u", []byte("x")) })
	}
	all.Wait()
	after := NewSealer(&storage, nil, logTo(&log))
	for _, text := range sealed {
		if got, err := after.Open(t.Context(), "u", text); err != nil || string(got) != "x" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if log.Len() > 0 {
		t.Error(log.String())
	}
}

// TestBrokenStorage checks that a server whose storage cannot be written seals with the key of its process, and
// says so. If the storage does not work for another reason, the next request tries again.
func TestBrokenStorage(t *testing.T) {
	for _, broken := range []error{fs.ErrPermission, syscall.EROFS} {
		var log bytes.Buffer
		sealed, err := NewSealer(&memory{broken: broken}, nil, logTo(&log)).Seal(t.Context(), "u", []byte("x"))
		if err != nil || !strings.Contains(log.String(), "after a restart") {
			t.Errorf("%v, log %q", err, log.String())
		}
		if got, err := Sealer(OfProcess).Open(t.Context(), "u", sealed); err != nil || string(got) != "x" {
			t.Errorf("%q, %v", got, err)
		}
	}
	storage, log := new(memory), new(bytes.Buffer)
	sealed, _ := NewSealer(storage, nil, logTo(log)).Seal(t.Context(), "u", []byte("x"))
	storage.broken = errors.New("unreachable")
	s := NewSealer(storage, nil, logTo(log))
	if _, err := s.Open(t.Context(), "u", sealed); !errors.Is(err, storage.broken) {
		t.Error(err)
	}
	storage.broken = nil
	if got, err := s.Open(t.Context(), "u", sealed); err != nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestSharedKey checks that servers with storages of their own read what each other has sealed, also after the
// shared key was lost.
func TestSharedKey(t *testing.T) {
	ctx := t.Context()
	var common string
	down := errors.New("down")
	var failure error
	share := func(_ context.Context, own string) (string, error) {
		if common == "" {
			common = own
		}
		return common, failure
	}
	first, second := new(memory), new(memory)
	var log bytes.Buffer
	if _, err := NewSealer(second, nil, logTo(&log)).Seal(ctx, "u", nil); err != nil {
		t.Fatal(err) // it has a key of its own before
	}
	one, _ := NewSealer(first, share, logTo(&log)).Seal(ctx, "u", []byte("one"))
	failure = down
	s := NewSealer(second, share, logTo(&log))
	if _, err := s.Open(ctx, "u", one); !errors.Is(err, down) {
		t.Errorf("without the others: %v", err)
	}
	failure = nil
	if _, err := s.Open(ctx, "u", one); err != nil {
		t.Error(err)
	}
	common = "" // the engine has lost it; the second server begins again
	two, _ := NewSealer(second, share, logTo(&log)).Seal(ctx, "u", []byte("two"))
	for _, text := range []string{one, two} {
		if _, err := NewSealer(first, share, logTo(&log)).Open(ctx, "u", text); err != nil {
			t.Error(err)
		}
	}
}
