package responsestore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
)

// TestClaims checks that a claim lasts as long as it is renewed, and that the sweep
// deletes those that were left.
func TestClaims(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	one, now := newShared(t, &certmagic.FileStorage{Path: dir}, Limits{24 * time.Hour, 100})
	other, _ := newShared(t, &certmagic.FileStorage{Path: dir}, Limits{24 * time.Hour, 100})
	other.now = one.now
	check := func(what string, claimed, cancelled bool) {
		t.Helper()
		is, err := other.Claimed(ctx, id(0))
		asked, askErr := one.Cancelled(ctx, id(0))
		if is != claimed || asked != cancelled || err != nil || askErr != nil {
			t.Errorf("%s: claimed %t, cancelled %t, %v, %v", what, is, asked, err, askErr)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	check("nothing", false, false)
	must(one.Claim(ctx, id(0)))
	check("begun", true, false)
	now.Add(int64(ClaimTime - time.Second))
	must(one.Claim(ctx, id(0)))
	now.Add(int64(ClaimTime - time.Second))
	check("renewed", true, false)
	must(other.Cancel(ctx, id(0)))
	check("to be cancelled", true, true)
	now.Add(int64(2 * time.Second))
	check("not renewed", false, true)
	must(one.Claim(ctx, id(0)))
	must(one.Unclaim(ctx, id(0)))
	must(one.Unclaim(ctx, id(0)))
	check("ended", false, false)
	must(other.Claim(ctx, id(0)))
	must(other.Cancel(ctx, id(0)))
	left := func() int {
		_, err := one.sweep(ctx)
		must(err)
		keys, _ := os.ReadDir(filepath.Join(dir, filepath.FromSlash(claimFolder)))
		return len(keys)
	}
	if got := left(); got != 2 {
		t.Errorf("%d are left of a response that may go on", got)
	}
	now.Add(int64(claimsLeft))
	if got := left(); got != 0 {
		t.Errorf("%d are left", got)
	}
	must(one.PutEvents(ctx, id(0), 0, []byte("x")))
	must(one.PutEvents(ctx, id(0), 1, []byte("y")))
	if block, release, err := other.GetEvents(ctx, id(0), 1); err != nil || string(block) != "y" {
		t.Errorf("the block is %q, %v", block, err)
	} else {
		release()
	}
	must(other.ForgetEvents(ctx, id(0)))
	if _, _, err := one.GetEvents(ctx, id(0), 0); !errors.Is(err, ErrNotFound) {
		t.Error("deleted, but", err)
	}
	must(one.PutEvents(ctx, id(0), 0, []byte("x")))
	if got := left(); got != 0 {
		t.Errorf("%d blocks are left", got)
	}
	if one.Claim(ctx, "resp_../x") == nil || one.Cancel(ctx, "") == nil {
		t.Error("an id of another form is claimed")
	}
}
