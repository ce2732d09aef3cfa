package caddymodule

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/caddymodule/storemodules"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/option"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestOptionsAreDocumented compares the options with the tables of the documentation.
func TestOptionsAreDocumented(t *testing.T) {
	var options []string
	for block, customOptions := range map[any]map[string]option.Custom{
		new(Handler): new(Handler).customOptions(), new(AppServer): new(AppServer).customOptions(), new(Conversations): nil, new(storemodules.Redis): nil, new(Record): {"texts": {}},
	} {
		for _, o := range option.Of(block) {
			if _, listed := customOptions[o.Name]; o.LineName == o.Name && !listed {
				options = append(options, o.Name)
			}
		}
		options = slices.AppendSeq(options, maps.Keys(customOptions))
	}
	shown := slices.Concat(tableOptions(t, "../docs/configuration.md"), tableOptions(t, "../docs/tool-calls.md"))
	for _, option := range options {
		if !slices.Contains(shown, option) {
			t.Errorf("the docs lack %s", option)
		}
	}
	for i, option := range shown {
		if !slices.Contains(options, option) {
			t.Errorf("the docs have %s, which is no option", option)
		}
		if option != "app_server" && slices.Contains(shown[:i], option) {
			t.Errorf("the docs have %s twice", option)
		}
	}
}

// TestCodesAreDocumented checks that the page of errors has every code of this server.
func TestCodesAreDocumented(t *testing.T) {
	page := readText(t, "../docs/errors.md")
	for _, code := range apierror.Labels() {
		if code != apierror.LabelInvalid && code != apierror.LabelOther && !strings.Contains(page, "`"+code+"`") {
			t.Errorf("docs/errors.md lacks %s", code)
		}
	}
}

// TestHeadersAreDocumented checks that the page of errors has every header of this server's answers.
func TestHeadersAreDocumented(t *testing.T) {
	page := strings.ToLower(readText(t, "../docs/errors.md"))
	for _, name := range gateway.AnswerHeaders {
		name = strings.ToLower(name)
		family := regexp.MustCompile("^(x-codex-(primary|secondary)-).*").ReplaceAllString(name, "$1…")
		if !strings.Contains(page, "`"+name+"`") && !strings.Contains(page, "`"+family+"`") {
			t.Errorf("docs/errors.md lacks %s", name)
		}
	}
}

func tableOptions(t *testing.T, path string) (options []string) {
	for _, row := range optionRows(readText(t, path)) {
		options = append(options, row.option)
	}
	return options
}

// optionRow is a row of a table of options.
type optionRow struct {
	option    string
	byDefault string // as in the Caddyfile; empty: none, or described in words
}

var (
	firstName = regexp.MustCompile("^`([a-z_]+)")
	firstCode = regexp.MustCompile("^`([^`]+)`")
)

// optionRows returns the rows of the tables of options in a page.
func optionRows(page string) (rows []optionRow) {
	byDefault := -1 // the column; -1: not in a table of options
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		switch {
		case cells[0] == "option":
			byDefault = slices.Index(cells, "default")
		case !strings.HasPrefix(line, "|"):
			byDefault = -1
		}
		name := firstName.FindStringSubmatch(cells[0])
		if byDefault < 0 || name == nil {
			continue
		}
		row := optionRow{option: name[1]}
		if code := firstCode.FindStringSubmatch(cells[byDefault]); code != nil {
			row.byDefault = code[1]
		}
		rows = append(rows, row)
	}
	return rows
}

// TestOptionsHaveAnchors checks that a link can lead to each option.
func TestOptionsHaveAnchors(t *testing.T) {
	anchors := make(map[string]bool)
	for _, page := range []string{"../docs/configuration.md", "../docs/keys.md", "../docs/tool-calls.md"} {
		text, table := readText(t, page), false
		for line := range strings.Lines(text) {
			table = strings.HasPrefix(line, "| option ") || table && strings.HasPrefix(line, "|")
			if !table || firstName.FindString(strings.TrimPrefix(line, "| ")) == "" {
				continue
			}
			anchor := regexp.MustCompile(`<a id="([\w-]+)"></a>`).FindStringSubmatch(line)
			if anchor == nil || anchors[anchor[1]] {
				t.Errorf("%s: no anchor of its own in %s", page, line)
				continue
			}
			anchors[anchor[1]] = true
		}
	}
	if len(anchors) < 50 {
		t.Errorf("only %d anchors were found", len(anchors))
	}
}

// Each page with four sections or more lists them, and the README leads to each page.
func TestContents(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	must.OK(t, err)
	dev, err := filepath.Glob("../docs/dev/*.md")
	must.OK(t, err)
	if len(pages) < 15 || len(dev) < 5 {
		t.Fatal(pages, dev)
	}
	readme := readText(t, "../README.md")
	for _, page := range append(pages, dev...) {
		if !strings.Contains(readme, "("+strings.TrimPrefix(filepath.ToSlash(page), "../")) {
			t.Errorf("the README does not name %s", page)
		}
		text := regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(readText(t, page), "")
		sections := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(text, -1)
		_, contents, _ := strings.Cut(text, "**On this page:** ")
		contents, _, _ = strings.Cut(contents, "\n")
		for _, section := range sections {
			if len(sections) >= 4 && !strings.Contains(contents, "["+section[1]+"](#") {
				t.Errorf("%s does not list %q", page, section[1])
			}
		}
	}
}

// TestDocumentedDefaults: to give an option its documented default changes nothing.
func TestDocumentedDefaults(t *testing.T) {
	defaults := new(Handler)
	must.OK(t, defaults.complete())
	checked := 0
	for _, path := range []string{"../docs/configuration.md", "../docs/tool-calls.md"} {
		// The options of an app-server get their defaults elsewhere.
		page, _, _ := strings.Cut(readText(t, path), "### Options of `app_server`")
		for _, row := range optionRows(page) {
			if row.byDefault == "" || row.option == "app_server" {
				continue
			}
			checked++
			h := new(Handler)
			err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser("codex {\n" + row.option + " " + row.byDefault + "\n}"))
			if err := errors.Join(err, h.complete()); err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			sameJSON(t, row.option+" "+row.byDefault, encode(t, h), string(encode(t, defaults)))
		}
	}
	if checked < 20 {
		t.Errorf("%d defaults were found", checked)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must.OK(t, err)
	return string(text)
}

var (
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInSlugs = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// documentation returns the paths of all pages.
func documentation(t *testing.T) (pages []string) {
	t.Helper()
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/*/*.md", "../examples/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err, found)
		}
		pages = append(pages, found...)
	}
	return pages
}

// goFile matches the name of a Go file in the documentation, perhaps with directories before it.
var goFile = regexp.MustCompile("`([\\w./-]+\\.go)`")

// TestNamedFiles checks that each Go file that the documentation names exists.
func TestNamedFiles(t *testing.T) {
	var files strings.Builder
	for _, dir := range []string{"aggregator", "caddymodule", "codexrpc", "internal", "sse"} {
		if err := filepath.WalkDir("../"+dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Name() == "node_modules" {
				return fs.SkipDir
			}
			files.WriteString(filepath.ToSlash(path) + "\n")
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	named := 0
	for _, page := range documentation(t) {
		for _, match := range goFile.FindAllStringSubmatch(readText(t, page), -1) {
			named++
			if !strings.Contains(files.String(), "/"+match[1]+"\n") {
				t.Errorf("%s names %s, which does not exist", page, match[1])
			}
		}
	}
	if named == 0 {
		t.Error("no page names a file")
	}
}

// Each relative link in the documentation leads to a file and, with a fragment, to a heading.
func TestLinks(t *testing.T) {
	for _, page := range documentation(t) {
		for _, match := range link.FindAllStringSubmatch(readText(t, page), -1) {
			path, fragment, _ := strings.Cut(match[1], "#")
			if strings.Contains(path, ":") {
				continue
			}
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if fragment != "" && !slices.Contains(slugs(readText(t, target)), fragment) {
				t.Errorf("%s: %s has no heading #%s", page, target, fragment)
			}
		}
	}
}

// slugs returns the fragments of a page's headings, as GitHub makes them.
func slugs(page string) (slugs []string) {
	for _, match := range heading.FindAllStringSubmatch(page, -1) {
		text := notInSlugs.ReplaceAllString(strings.ToLower(match[1]), "")
		slugs = append(slugs, strings.ReplaceAll(text, " ", "-"))
	}
	return slugs
}

// TestRoutesAreDocumented looks for each route of the API in the documentation, where a part of
// the path that is not fixed is a name in braces.
func TestRoutesAreDocumented(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	must.OK(t, err)
	var all strings.Builder
	for _, page := range pages {
		all.WriteString(readText(t, page))
	}
	for pattern := range routes {
		path := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `\{\w+\}`)
		if !regexp.MustCompile(path + `[^\w/{]`).MatchString(all.String()) {
			t.Errorf("no page names the route %s", pattern)
		}
	}
}
