package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestNobodyIsPushedOut checks that a user who stores as much as possible drops own entries only.
func TestNobodyIsPushedOut(t *testing.T) {
	m := NewMemory(96<<10, time.Hour) // an entry has its text three times
	put := func(i int, user string, size int) error {
		return m.Put(t.Context(), user, id(i), entry("", strings.Repeat("x", size)))
	}
	for i, user := range []string{"b", "c", "b"} {
		must.OK(t, put(i, user, 1000))
	}
	for i := range 100 {
		must.OK(t, put(10+i, "a", 12<<10))
	}
	if err := put(500, "a", 33<<10); !errors.Is(err, ErrTooLarge) {
		t.Error("an entry of more than half of what is shared:", err)
	}
	for i, user := range []string{"b", "c", "b"} {
		if _, err := get(t.Context(), m, user, id(i)); err != nil {
			t.Errorf("%s has lost an entry: %v", user, err)
		}
	}
}

// TestShareOfMemory checks, whatever users put, read, change and delete, that a user loses entries
// only while no other one has more, and that all sums are right.
func TestShareOfMemory(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		m := NewMemory(30_000, time.Hour) // an entry has its text three times
		users := []string{"", "a", "b", "c"}
		for range 300 {
			user, at := users[random.IntN(len(users))], id(random.IntN(30))
			before := m.held()
			switch random.IntN(5) {
			case 0:
				_ = m.Delete(t.Context(), user, at, Whole)
				continue
			case 1:
				_, _ = get(t.Context(), m, user, at)
				continue
			}
			if k := m.byID[at]; k != nil && k.share.name != user {
				continue // ids of others are not known
			}
			e := entry("", strings.Repeat("x", random.IntN(4000)))
			must.OK(t, m.Put(t.Context(), user, at, e))
			after := m.held()
			for other, bytes := range before {
				if only := m.byUser[user].entries.Len() == 1; other != user && after[other] < bytes && bytes < after[user] && !only {
					t.Fatalf("seed %d: %q has %d of %d bytes left beside %d of %q", seed, other, after[other], bytes, after[user], user)
				}
			}
			checkSums(t, m)
		}
	}
}

// held returns the bytes of the users.
func (m *Local) held() map[string]int64 {
	held := make(map[string]int64)
	for _, k := range m.byID {
		held[k.share.name] += k.size
	}
	return held
}

func checkSums(t *testing.T, m *Local) {
	t.Helper()
	held, sum := m.held(), int64(0)
	for name, of := range m.byUser {
		if sum += of.bytes; of.bytes != held[name] || of.bytes == 0 {
			t.Fatalf("%q has %d bytes, but %d are counted", name, held[name], of.bytes)
		}
	}
	if sum != m.bytes || sum > m.maxBytes || len(m.byUser) != len(held) || m.byAge.Len() != len(m.byID) {
		t.Fatal(fmt.Sprint(sum, m.bytes, held, m.byAge.Len(), len(m.byID)))
	}
}
