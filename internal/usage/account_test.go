package usage

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
)

// Users with odd names have accounts of their own, also after a restart.
func TestOddUsers(t *testing.T) {
	long := strings.Repeat("x", 1000)
	users := []string{"", "ann", "J\xfcrgen", "J\xf6rgen", "Jürgen", "J\ufffdrgen", others, "others", long + "a", long + "b", "a\nb", `a"b`, "<a>", "a b", "ann#1"}
	b := New()
	for _, user := range users {
		b.Add(record(user, "of "+user))
	}
	restarted := New()
	restore(t, restarted, b)
	for name, b := range map[string]*Book{"new": b, "restarted": restarted} {
		for _, user := range users {
			if a, raw := b.Account(UserName(user), 0), b.Raw(UserName(user)); a.Requests != 1 || len(raw.Data) != 1 || raw.Data[0].RequestID != strings.ToValidUTF8("of "+user, "\ufffd") && raw.Data[0].RequestID != "of "+user {
				t.Errorf("%s: %.20q has %d requests and %d entries", name, user, a.Requests, len(raw.Data))
			}
		}
		if all := b.Account(Everybody, 0); len(all.ByUser) != len(users) {
			t.Errorf("%s: %d users", name, len(all.ByUser))
		}
		for _, e := range b.Raw(Everybody).Data {
			if len(e.User) > maxName || UserName(e.User) != e.User {
				t.Errorf("%s: the name %q is kept", name, e.User)
			}
		}
	}
}

// restore restores a book from the document of another one.
func restore(t *testing.T, into, from *Book) {
	t.Helper()
	document, _ := from.Document(0)
	stored, err := json.Marshal(document)
	if err == nil {
		err = into.Restore(stored)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A user named "others" does not get the shared account.
func TestSharedAccountAndOthers(t *testing.T) {
	b := New()
	b.Add(record("others", "1"))
	for i := range maxUsers + 1 {
		b.Add(record("user "+string(rune('a'+i%26))+strings.Repeat("x", i/26), "2"))
	}
	var sum int64
	for _, u := range b.Account(Everybody, 0).ByUser {
		sum += u.Requests
	}
	if sum != maxUsers+2 {
		t.Errorf("%d requests of all users", sum)
	}
}

// TestLongCodes checks that a provider's error code is cut.
func TestLongCodes(t *testing.T) {
	b := New()
	r := record("ann", "1")
	r.Code = apierror.Code(strings.Repeat("x", 1000))
	b.Add(r)
	if got := b.Raw("ann").Data[0].Code; len(got) != maxName {
		t.Errorf("%d bytes", len(got))
	}
}
