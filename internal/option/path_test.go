package option

import (
	"path/filepath"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

func TestAbsolutePath(t *testing.T) {
	t.Setenv("FOLDER", "/srv")
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"": "", "/x/../y": "/y", "a": filepath.Join(here, "a"), "{env.FOLDER}/b": "/srv/b"} {
		if got, err := AbsolutePath(caddy.NewReplacer(), path); got != want || err != nil {
			t.Errorf("%q: %q (%v), want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"{env.NOT_THERE}/b", "{unknown}"} {
		if got, err := AbsolutePath(caddy.NewReplacer(), path); err == nil {
			t.Errorf("%q: %q", path, got)
		}
	}
}
