// Package docfields reads which fields the documentation explains, to compare them with the code.
package docfields

import (
	"os"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// Named returns the first columns of the tables in the page's section with this heading.
func Named(t testing.TB, page, heading string) map[string]bool {
	t.Helper()
	all, err := os.ReadFile(page)
	must.OK(t, err)
	_, section, ok := strings.Cut(string(all), heading+"\n")
	if !ok {
		t.Errorf("%s has no section %s", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n##")
	named := map[string]bool{}
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for name := range strings.SplitSeq(cells[1], ",") {
				named[strings.Trim(name, " `")] = true
			}
		}
	}
	return named
}

// Read wants each of the fields that are read, the keys of readers, in the section's tables.
func Read[R any](t testing.TB, page, heading string, readers map[string]R) {
	t.Helper()
	named := Named(t, page, heading)
	for name := range named { // text.format says something of text
		member, _, _ := strings.Cut(name, ".")
		named[member] = true
	}
	for field := range readers {
		if !named[field] {
			t.Errorf("%s, %q says nothing of the field %s, which is read", page, heading, field)
		}
	}
}
