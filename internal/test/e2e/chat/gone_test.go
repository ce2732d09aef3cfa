package chat

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestCatalogueGone checks that turns do not fail when the catalogue file is gone.
func TestCatalogueGone(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s := e2e.NewSite(t, "")
	files, err := filepath.Glob(filepath.Join(temp, "*", "home-*", "model-*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the catalogues are %q (%v)", files, err)
	}
	each := func(spoil func(path string) error) func() error {
		return func() (err error) {
			for _, path := range files {
				err = errors.Join(err, spoil(path))
			}
			return err
		}
	}
	for name, spoil := range map[string]func() error{
		"broken": each(func(path string) error { return os.WriteFile(path, []byte(`{"models":[`), 0o600) }),
		"gone":   each(os.RemoveAll),
	} {
		t.Run(name, func(t *testing.T) {
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			response, body := s.At(t).Post(e2e.ChatBody("say:It works.", map[string]any{"model": "gpt-6-sol"}), nil)
			if response.StatusCode != 200 || !strings.Contains(body, "It works.") {
				t.Error(response.Status, body)
			}
		})
	}
}
