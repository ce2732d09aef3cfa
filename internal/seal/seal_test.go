package seal

import (
	"context"
	"errors"
	"strings"
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
