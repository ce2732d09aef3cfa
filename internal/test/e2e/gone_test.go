package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCatalogueGone: a turn does not fail with the file behind it.
func TestCatalogueGone(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s := newSite(t, "")
	files, err := filepath.Glob(filepath.Join(temp, "*", "home-*", "models.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the catalogues are %q (%v)", files, err)
	}
	for name, spoil := range map[string]func() error{
		"broken": func() error { return os.WriteFile(files[0], []byte(`{"models":[`), 0o600) },
		"gone":   func() error { return os.RemoveAll(files[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			response, body := s.at(t).post(chatBody("say:It works.", map[string]any{"model": "gpt-6-sol"}), nil)
			if response.StatusCode != 200 || !strings.Contains(body, "It works.") {
				t.Error(response.Status, body)
			}
		})
	}
}
