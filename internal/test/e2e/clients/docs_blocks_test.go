package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"go.yaml.in/yaml/v3"

	"github.com/caddy-codex/caddy-codex/internal/apikeys"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

type block struct {
	page string // path from the root
	line int
	lang string // of a fenced one, else empty
	text string
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

func pages(t *testing.T) (found []string) {
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		paths, err := filepath.Glob(filepath.Join("../../../..", pattern))
		must.OK(t, err)
		found = append(found, paths...)
	}
	if len(found) < 10 {
		t.Fatalf("only %q were found", found)
	}
	return found
}

// blocksOf returns the blocks of a page, fenced or indented.
func blocksOf(t *testing.T, path string) (blocks []block) {
	t.Helper()
	page, _ := filepath.Rel("../../../..", path)
	var b *block
	fenced, blank := false, true
	end := func() {
		if b != nil {
			b.text = dedent(b.text)
			blocks = append(blocks, *b)
		}
		b, fenced = nil, false
	}
	n := 0
	for line := range strings.Lines(e2e.ReadFile(t, path)) {
		n++
		rest, fence := strings.CutPrefix(strings.TrimLeft(line, " "), "```")
		indented := strings.HasPrefix(line, "    ") && strings.TrimSpace(line) != ""
		switch {
		case fence && fenced:
			end()
		case fence:
			end()
			b, fenced = &block{page: page, line: n + 1, lang: strings.TrimSpace(rest)}, true
		case fenced, indented && b != nil, strings.TrimSpace(line) == "" && b != nil:
			b.text += line
		case indented && blank:
			b = &block{page: page, line: n, text: line}
		default:
			end()
		}
		blank = strings.TrimSpace(line) == ""
	}
	end()
	return blocks
}

// dedent removes the indentation that all lines share.
func dedent(text string) string {
	indent := -1
	for line := range strings.Lines(text) {
		if words := strings.TrimLeft(line, " "); strings.TrimSpace(words) != "" && (indent < 0 || len(line)-len(words) < indent) {
			indent = len(line) - len(words)
		}
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(line[min(max(indent, 0), len(line)-1):])
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// shown are pages whose indented blocks show what crosses the wire, or code.
var shown = []string{"CONTRIBUTING.md", "docs/dev/architecture.md", "docs/dev/codex.md", "docs/tool-calls.md"}

func kindOf(b block) string {
	if b.lang != "" {
		return b.lang
	}
	first := ""
	for line := range strings.Lines(b.text) {
		if first = strings.TrimSpace(line); !strings.HasPrefix(first, "#") {
			break
		}
	}
	word, _, _ := strings.Cut(regexp.MustCompile(`^([A-Z_]+=\S+ )+`).ReplaceAllString(first, ""), " ")
	switch {
	case strings.HasPrefix(first, "@"):
		return "caddyfile"
	case strings.HasPrefix(first, `{"`):
		return "json"
	case word == "key" && strings.HasSuffix(first, "{"):
		return "keys"
	case regexp.MustCompile(`^(\[[\w.-]+\]|[\w.]+ = .*)$`).MatchString(first):
		return "toml"
	case strings.HasSuffix(first, "{") && word != "type", slices.Contains([]string{"cors", "hosts", "log"}, word):
		return "caddyfile"
	case regexp.MustCompile(`^[A-Z_]+=\S+$`).MatchString(first): // a variable of the environment
		return "text"
	case word == "ACL": // a command of Redis, which TestACL runs
		return "text"
	case commands[strings.TrimLeft(word, "(")] != nil:
		return "sh"
	}
	return ""
}

// keysFile matches the option with a file of keys, which the machine of the tests does not have.
var keysFile = regexp.MustCompile(`api_keys_file \S+`)

// TestDocumentedBlocks checks every block of the documentation: configurations load, commands exist
// with their options, and data is well formed. Snippets of clients are run by TestClientPages.
func TestDocumentedBlocks(t *testing.T) {
	found := make(map[string]int)
	for _, page := range pages(t) {
		for _, b := range blocksOf(t, page) {
			kind := kindOf(b)
			found[kind]++
			switch kind {
			case "caddyfile":
				b.checkCaddyfile(t)
			case "json":
				if !json.Valid([]byte(b.text)) {
					t.Errorf("%s: no JSON", b)
				}
			case "toml":
				if err := toml.Unmarshal([]byte(b.text), new(map[string]any)); err != nil {
					t.Errorf("%s: %v", b, err)
				}
			case "yaml":
				if err := yaml.Unmarshal([]byte(b.text), new(any)); err != nil {
					t.Errorf("%s: %v", b, err)
				}
			case "keys":
				path := filepath.Join(t.TempDir(), "keys")
				e2e.WriteFile(t, path, b.text)
				if _, err := apikeys.Open(path, slog.New(slog.DiscardHandler)); err != nil {
					t.Errorf("%s: %v", b, err)
				}
			case "xml":
				if err := xml.Unmarshal([]byte(b.text), new(struct{})); err != nil {
					t.Errorf("%s: %v", b, err)
				}
			case "sh":
				b.checkCommands(t)
			case "js", "go", "python", "mermaid", "text":
			default:
				if !slices.Contains(shown, b.page) && !strings.Contains(b.text, "…") && !isShape(b.text) {
					t.Errorf("%s: it is not known what this is:\n%s", b, b.text)
				}
			}
		}
	}
	if found["caddyfile"] < 10 || found["sh"] < 15 || found["toml"] < 2 {
		t.Errorf("only these were found: %v", found)
	}
}

// isShape reports whether a block shows the form of something, with parts to fill in.
func isShape(text string) bool {
	return regexp.MustCompile(`\[?<[a-z]+>|\{id\}|Further JSON Schema`).MatchString(text)
}

var envPlaceholder = regexp.MustCompile(`\{env\.(\w+)\}|\{\$\w+\}`)

// checkCaddyfile checks that a configuration, or a part of one, can be loaded.
func (b block) checkCaddyfile(t *testing.T) {
	t.Helper()
	text := envPlaceholder.ReplaceAllString(b.text, "x-$1")
	text = strings.ReplaceAll(text, "<hash>", e2e.BobsHash)
	text = regexp.MustCompile(`\bC:/\S+`).ReplaceAllString(text, "codex") // this machine has no such paths
	if keysFile.MatchString(text) {
		path := filepath.Join(t.TempDir(), "keys")
		e2e.WriteFile(t, path, "")
		text = keysFile.ReplaceAllString(text, "api_keys_file "+path)
	}
	word := strings.Fields(text)[0]
	if word == "#" {
		word = strings.Fields(regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(text, ""))[0]
	}
	switch {
	case slices.Contains([]string{"app_server", "cors", "hosts"}, word):
		text = ":8080 {\ncodex {\n" + text + "}\n}\n"
	case slices.Contains([]string{"codex", "route", "log"}, word):
		text = ":8080 {\n" + text + "}\n"
	case strings.HasPrefix(word, "@"):
		text = ":8080 {\n" + text + "codex\n}\n"
	}
	if err := validateCaddyfile(t, text); err != nil {
		t.Errorf("%s: %v\n%s", b, err, text)
	}
}

// validateCaddyfile adapts and provisions a Caddyfile.
func validateCaddyfile(t *testing.T, text string) error {
	t.Helper()
	config, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		if !strings.Contains(w.Message, "not formatted") {
			return fmt.Errorf("%v", w)
		}
	}
	var parsed caddy.Config
	if err := json.Unmarshal(config, &parsed); err != nil {
		return err
	}
	return caddy.Validate(&parsed)
}

// commands are the commands in the documentation, with the check of their arguments.
var commands = map[string]func(b block, words []string) error{
	"make":   checkMake,
	"go":     checkGo,
	"xcaddy": checkXcaddy,
	"codex":  checkHelp,
	"caddy":  checkHelp,
	// What these do is not the documentation's to prove; files that they name exist.
	"npm": checkFiles, "curl": checkFiles, "docker": checkFiles, "systemctl": checkFiles, "journalctl": checkFiles, "git": checkFiles, "useradd": checkFiles,
	"sudo": checkFiles, "mkdir": checkFiles, "umask": checkFiles, "build/caddy": checkFiles, "cp": checkFiles, "install": checkFiles,
	"tar": checkFiles, "export": checkFiles, "cd": checkFiles, "jq": checkFiles, "openssl": checkFiles, "ls": checkFiles, "gh": checkFiles,
	"sha256sum": checkFiles, "grep": checkFiles, "claude": checkFiles, "base64": checkFiles, "echo": checkFiles, "printf": checkFiles,
	"sc.exe": checkFiles, "launchctl": checkFiles, "caddy-codex": checkFiles,
	"copilot": checkFiles, "opencode": checkFiles, "cn": checkFiles,
	"sed": checkFiles, "for": checkNothing, "do": checkNothing, "done": checkNothing,
}

// checkNothing is for words of the shell's language.
func checkNothing(block, []string) error { return nil }

// checkCommands checks the commands of a block.
func (b block) checkCommands(t *testing.T) {
	t.Helper()
	text := strings.ReplaceAll(b.text, "\\\n", " ")
	text = regexp.MustCompile(`(?m)(^|\s)#.*$|[()]`).ReplaceAllString(text, "")
	text = regexp.MustCompile(`'[^']*'|"[^"]*"`).ReplaceAllStringFunc(text, func(quoted string) string {
		return strings.NewReplacer(" ", "\x00", "|", "\x01", "&", "\x02", ";", "\x03", "\n", "\x00").Replace(quoted)
	})
	for _, line := range regexp.MustCompile(`\n|&&|\||;`).Split(text, -1) {
		words := strings.Fields(line)
		for len(words) > 0 && regexp.MustCompile(`^\w+=`).MatchString(words[0]) {
			words = words[1:] // variables
		}
		if len(words) == 0 || strings.HasPrefix(words[0], "[") {
			continue // the second line of a synopsis
		}
		for i := range words {
			words[i] = strings.NewReplacer("\x00", " ", "\x01", "|", "\x02", "&", "\x03", ";", "'", "", `"`, "").Replace(words[i])
		}
		check := commands[words[0]]
		if check == nil {
			t.Errorf("%s: the command %q is not known", b, words[0])
		} else if err := check(b, words); err != nil {
			t.Errorf("%s: %q: %v", b, strings.Join(words, " "), err)
		}
	}
}

// checkMake checks targets and variables.
func checkMake(_ block, words []string) error {
	makefile, err := os.ReadFile("../../../../Makefile")
	if err != nil {
		return err
	}
	for _, word := range words[1:] {
		name, _, isVariable := strings.Cut(word, "=")
		pattern := "(?m)^" + regexp.QuoteMeta(name) + `( .*)?:`
		if isVariable {
			pattern = `\b` + name + `\b`
		}
		if !regexp.MustCompile(pattern).Match(makefile) {
			return fmt.Errorf("the Makefile has no %s", name)
		}
	}
	return nil
}

// checkGo checks the packages and the names of tests.
func checkGo(_ block, words []string) error {
	for i, word := range words {
		if strings.HasPrefix(word, "./") && !strings.HasSuffix(word, "...") {
			if _, err := os.Stat(filepath.Join("../../../..", word)); err != nil {
				return err
			}
		}
		if words[i-min(i, 1)] == "-run" {
			for name := range strings.SplitSeq(word, "|") {
				if strings.HasPrefix(name, "Test") && !slices.ContainsFunc(testNames(), func(test string) bool { return strings.HasPrefix(test, name) }) {
					return fmt.Errorf("there is no test %s", name)
				}
			}
		}
	}
	return nil
}

// testNames returns the names of the end-to-end tests.
var testNames = sync.OnceValue(func() (names []string) {
	files, _ := filepath.Glob("../*/*_test.go")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)`).FindAllSubmatch(text, -1) {
			names = append(names, string(match[1]))
		}
	}
	return names
})

// pinned returns a version of the Makefile.
func pinned(name string) string {
	makefile, _ := os.ReadFile("../../../../Makefile")
	match := regexp.MustCompile(`(?m)^` + name + ` *:= *(\S+)`).FindSubmatch(makefile)
	if match == nil {
		return "?"
	}
	return string(match[1])
}

// checkXcaddy checks the version of Caddy and the name of the module.
func checkXcaddy(_ block, words []string) error {
	for i, word := range words {
		switch {
		case strings.HasPrefix(word, "v2.") && words[i-1] == "build" && word != pinned("CADDY_VERSION"):
			return fmt.Errorf("Caddy is %s elsewhere", pinned("CADDY_VERSION"))
		case strings.Contains(word, "caddy-codex") && words[i-1] == "--with" && !strings.HasPrefix(word, "github.com/caddy-codex/caddy-codex"):
			return fmt.Errorf("the module has another name")
		case strings.HasPrefix(word, "github.com/caddy-codex/caddy-codex") && !strings.HasSuffix(word, "@v0.0.0=."):
			return fmt.Errorf("Go asks for published versions: it has to be …@v0.0.0=.")
		}
	}
	return nil
}

// TestCodexIsPinned checks that all pages install the tested Codex, except as a client.
func TestCodexIsPinned(t *testing.T) {
	for _, page := range append(pages(t), "../../../../examples/docker/Dockerfile") {
		for _, name := range regexp.MustCompile(`@openai/codex[@\d.]*`).FindAllString(e2e.ReadFile(t, page), -1) {
			if want := "@openai/codex@" + pinned("CODEX_VERSION"); name != want && filepath.Base(page) != "codex-cli.md" {
				t.Errorf("%s installs %s, not %s", page, name, want)
			}
		}
	}
}

var helpTexts = make(map[string]string)

// checkHelp checks that the program's help knows the subcommands and options.
func checkHelp(_ block, words []string) error {
	program := e2e.CodexBinary
	if words[0] == "caddy" {
		program = e2e.CaddyBinary
		if _, err := os.Stat(program); err != nil {
			return fmt.Errorf("run `make build`, which makes it: %w", err)
		}
	}
	var subcommands []string
	for _, word := range words[1:] {
		if !regexp.MustCompile(`^[a-z][a-z-]+$`).MatchString(word) {
			break
		}
		subcommands = append(subcommands, word)
	}
	// An argument looks like a subcommand: help then knows less of them.
	help := ""
	for n := len(subcommands); help == "" && n > 0; n-- {
		args := append(slices.Clone(subcommands[:n]), "--help")
		key := words[0] + strings.Join(args, " ")
		if _, ok := helpTexts[key]; !ok {
			ctx, cancel := context.WithTimeout(context.Background(), e2e.Deadline)
			output, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
			cancel()
			if err != nil || !bytes.Contains(output, []byte("Usage:")) && !bytes.Contains(output, []byte("Flags:")) {
				output = nil
			}
			helpTexts[key] = string(output)
		}
		help = helpTexts[key]
	}
	if help == "" {
		return fmt.Errorf("%s has no such subcommand", words[0])
	}
	for _, word := range words[1:] {
		option, _, _ := strings.Cut(word, "=")
		if strings.HasPrefix(option, "--") && !strings.Contains(help, option) {
			return fmt.Errorf("%s has no option %s", strings.Join(append(words[:1:1], subcommands...), " "), option)
		}
	}
	return nil
}

// checkFiles checks that files of this project exist.
func checkFiles(_ block, words []string) error {
	for i, word := range words[1:] {
		if written := words[i] == ">"; !written && (strings.HasPrefix(word, "examples/") || strings.HasPrefix(word, "scripts/")) {
			if _, err := os.Stat(filepath.Join("../../../..", word)); err != nil {
				return err
			}
		}
	}
	return nil
}
