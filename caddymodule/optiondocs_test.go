package caddymodule

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestOptionsAreDocumented holds the three places that show the options to the
// options that there are: the syntax above UnmarshalCaddyfile, the block of
// docs/configuration.md, and the tables there and in docs/tool-calls.md.
func TestOptionsAreDocumented(t *testing.T) {
	var options []string
	for _, o := range slices.Concat(new(Handler).options(), new(AppServer).options(), new(Conversations).options()) {
		if o.word != nil || o.args != nil {
			options = append(options, o.name)
		}
	}
	for place, shown := range map[string][]string{
		"the syntax above UnmarshalCaddyfile": firstWords(t, "caddyfile.go", "//\tcodex {\n", "\n//\t}\n"),
		"the block of configuration.md":       firstWords(t, "../docs/configuration.md", "    codex {\n", "\n    }\n"),
		"the tables of the docs": slices.Concat(
			firstCells(t, "../docs/configuration.md", "| option | JSON |"),
			firstCells(t, "../docs/tool-calls.md", "| option | default |"),
		),
	} {
		for _, option := range options {
			if !slices.Contains(shown, option) {
				t.Errorf("%s lacks %s", place, option)
			}
		}
		for _, option := range shown {
			if !slices.Contains(options, option) {
				t.Errorf("%s has %s, which is no option", place, option)
			}
		}
	}
}

// between is the first part of a file between two marks.
func between(t *testing.T, path, from, to string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), from)
	part, _, ended := strings.Cut(rest, to)
	if !found || !ended {
		t.Fatalf("%s has no part between %q and %q", path, from, to)
	}
	return part
}

var firstWord = regexp.MustCompile(`(?m)^[/\s]*([a-z_]+)`)

// firstWords are the first words of the lines between two marks.
func firstWords(t *testing.T, path, from, to string) (words []string) {
	for _, match := range firstWord.FindAllStringSubmatch(between(t, path, from, to), -1) {
		words = append(words, match[1])
	}
	return words
}

var firstCell = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|")

// firstCells are the options in the first column of the table with a header.
func firstCells(t *testing.T, path, header string) (cells []string) {
	for _, match := range firstCell.FindAllStringSubmatch(between(t, path, header, "\n\n"), -1) {
		cells = append(cells, match[1])
	}
	return cells
}
