package responseid

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestNewSuffix: ids stand in the order of their times, and tell them.
func TestNewSuffix(t *testing.T) {
	var ids []string
	for seconds := int64(1); seconds < 1<<35; seconds *= 2 {
		at := time.Unix(seconds, 0)
		id := Prefix + NewSuffix(at)
		if back, ok := Time(id); !ok || !back.Equal(at) || !Valid(id) {
			t.Errorf("%s of %s: %s, %t", id, at, back, ok)
		}
		ids = append(ids, id)
	}
	if !slices.IsSorted(ids) {
		t.Errorf("%q", ids)
	}
	if one, other := NewSuffix(time.Now()), NewSuffix(time.Now()); one == other {
		t.Errorf("%s twice", one)
	}
	for _, id := range []string{"", "resp_", Prefix + strings.Repeat("z", suffixLength)} {
		if at, ok := Time(id); ok {
			t.Errorf("%q was made at %s", id, at)
		}
	}
}

func TestValid(t *testing.T) {
	one := Prefix + NewSuffix(time.Now())
	for text, want := range map[string]bool{
		one: true, "": false, "resp_": false, one + "x": false, "msg__" + one[5:]: false,
		Prefix + strings.Repeat("A", 26): false, Prefix + "../" + strings.Repeat("a", 23): false,
	} {
		if got := Valid(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// FuzzID: an id that tells when it was made tells the time that is in it.
func FuzzID(f *testing.F) {
	f.Add("resp_1a2b3c4" + strings.Repeat("x", suffixLength-stampLength))
	f.Fuzz(func(t *testing.T, id string) {
		at, ok := Time(id)
		if ok && (!Valid(id) && !ValidConversation(id) || stamp(at) != id[len(Prefix):][:stampLength]) {
			t.Fatalf("%q was made at %s, whose stamp is %q", id, at, stamp(at))
		}
	})
}

func TestItem(t *testing.T) {
	suffix := NewSuffix(time.Now())
	id := Item("rs", suffix, "3")
	if response, ok := OfItem(id); !ok || response != Prefix+suffix {
		t.Errorf("%s is of %q", id, response)
	}
	if source, ok := Source(WithSource(id, "rs_9_x")); !ok || source != "rs_9_x" {
		t.Errorf("source %q", source)
	}
	if _, ok := Source(id); ok || WithSource(id, "") != id {
		t.Error("an item without a source has one")
	}
	for _, foreign := range []string{"", "rs_1", "rs_abc_0", "rs_" + suffix, "rs_" + suffix + "x_0_y"} {
		if _, ok := OfItem(foreign); ok {
			t.Errorf("%q is of a response", foreign)
		}
		if _, ok := Source(foreign); ok {
			t.Errorf("%q has a source", foreign)
		}
	}
}
