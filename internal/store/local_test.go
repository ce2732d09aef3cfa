package store

import (
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestAge checks that entries are dropped by the time at which they were stored, also if something was
// added to them later, and by the present limit.
func TestAge(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	m := NewMemory(10_000, time.Hour)
	m.now = func() time.Time { return now }
	put := func(n int) {
		t.Helper()
		check(t, "put", m.Put(ctx, "u", id(n), entry("", "x")), nil)
		checkSums(t, m)
	}
	put(1)
	now = now.Add(30 * time.Minute)
	put(2)
	_, err := m.Append(ctx, "u", id(1), &Append{Part: Items, Records: [][]byte{[]byte("x")}})
	check(t, "append", err, nil)
	now = now.Add(31 * time.Minute)
	put(3)
	if len(m.byID) != 2 || len(m.shelf.(*memory).entries) != 2 || !exists(t, m, "u", id(2)) {
		t.Errorf("%d entries are kept", len(m.byID))
	}
	if m.maxAge = 30 * time.Minute; exists(t, m, "u", id(2)) {
		t.Error("older than the new limit, but there")
	}
}

// TestAllOld opens a file whose entries are all too old.
func TestAllOld(t *testing.T) {
	dir := t.TempDir()
	d := openDisk(t, dir)
	put := func(n int) { check(t, "put", d.Put(t.Context(), "u", id(n), entry("", "x")), nil) }
	put(1)
	put(2)
	must.OK(t, d.Close())
	d = NewDisk(dir)
	d.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	d.Limit(1<<30, time.Hour)
	must.OK(t, d.Start())
	t.Cleanup(func() { _ = d.Close() })
	if exists(t, d, "u", id(1)) || exists(t, d, "u", id(2)) {
		t.Error("too old, but there")
	}
	if put(3); len(d.byID) != 1 {
		t.Errorf("%d entries are kept", len(d.byID))
	}
}

// TestOldEvents checks that the events of an entry are dropped when they are old, that their room is
// free then, and that this is no use of the entry.
func TestOldEvents(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	m := NewMemory(10_000, 24*time.Hour)
	m.now = func() time.Time { return now }
	begin := func(n int) {
		t.Helper()
		check(t, "put", m.Put(ctx, "u", id(n), begun("o")), nil)
		_, err := m.Append(ctx, "u", id(n), added("o", 0, "event", "event"))
		check(t, "append", err, nil)
		checkSums(t, m)
	}
	begin(1)
	check(t, "put", m.Put(ctx, "u", id(2), entry("", "x")), nil)
	before := m.bytes
	now = now.Add(EventsTime)
	begin(3)
	if added := m.bytes - before; added != m.byID[id(3)].size-2*(5+RecordOverhead) {
		t.Errorf("%d bytes more", added)
	}
	check(t, "put", m.Put(ctx, "u", id(4), &Put{Value: make([]byte, 7900)}), nil)
	if exists(t, m, "u", id(1)) || !exists(t, m, "u", id(2)) {
		t.Error("another entry than the least recently used one has gone")
	}
	check(t, "delete", m.Delete(ctx, "u", id(4), Whole), nil)
	now = now.Add(EventsTime)
	begin(5)
	if page, _ := read(t, m, id(3), Events, 0); page.Next != 2 || len(page.Records) > 0 {
		t.Errorf("%d events are there", len(page.Records))
	}
}
