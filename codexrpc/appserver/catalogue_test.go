package appserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/needs"
)

// scriptConfig is a configuration whose program is a shell script with the
// given body. It is read by the shell, not executed: another test's fork may
// hold a file open that was just written.
func scriptConfig(t *testing.T, body string) *Config {
	t.Helper()
	script := filepath.Join(t.TempDir(), "codex.sh")
	if err := os.WriteFile(script, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Config{Command: []string{"/bin/sh", script, "-c", "a=b", "app-server", "--listen", "stdio"}}
}

// writeCatalogue runs the program for its catalogue, with the test's variables
// and some more, and writes it to path.
func (cfg *Config) writeCatalogue(path string, env ...string) (catalogue, error) {
	return cfg.startCatalogue(path, append(os.Environ(), env...), patience).write()
}

func TestChangedCatalogue(t *testing.T) {
	const (
		window = `"context_window":null,"max_context_window":null,"auto_compact_token_limit":null`
		added  = `"tool_mode":"direct","apply_patch_tool_type":null,"experimental_supported_tools":[],"multi_agent_version":null,"supports_search_tool":false,` + window
	)
	for _, test := range []struct{ name, in, want string }{
		{
			"present",
			`{"models":[{"slug":"a","tool_mode":"code_mode_only","apply_patch_tool_type":"freeform","experimental_supported_tools":["clock",{"x":[1]}],"multi_agent_version":"v2","supports_search_tool":true,"context_window":272000,"max_context_window":1,"auto_compact_token_limit":9}]}`,
			`{"models":[{"slug":"a",` + added + `}]}`,
		},
		{"absent", `{"models":[{"slug":"a"}]}`, `{"models":[{"slug":"a",` + added + `}]}`},
		{"no_members", `{"models":[{}]}`, `{"models":[{` + added + `}]}`},
		{
			"some_absent",
			`{"models":[{"tool_mode":null,"slug":"a","supports_search_tool":true}]}`,
			`{"models":[{"tool_mode":"direct","slug":"a","supports_search_tool":false,"apply_patch_tool_type":null,"experimental_supported_tools":[],"multi_agent_version":null,` + window + `}]}`,
		},
		{
			"twice",
			`{"models":[{"tool_mode":"x","tool_mode":{"y":1},"apply_patch_tool_type":1,"experimental_supported_tools":2,"multi_agent_version":3,"supports_search_tool":4}]}`,
			`{"models":[{"tool_mode":"direct","tool_mode":"direct","apply_patch_tool_type":null,"experimental_supported_tools":[],"multi_agent_version":null,"supports_search_tool":false,` + window + `}]}`,
		},
		{
			// Only members of a model count; numbers, escapes, white space and
			// the order of members are nobody's to change.
			"all_else",
			"\n{ \"v\" : 1.0e2,\"tool_mode\":\"x\",\"models\" :\t[ {\"slug\":\"\\u00e4\\/ü\", \"n\": 10000000000000000000001,\"deep\":{\"tool_mode\":\"x\",\"list\":[{\"tool_mode\":\"y\"}]}," +
				" \"tool_mode\" : \"x\" } ,\n{\"multi_agent_version\":\"v1\"}], \"new\":[ ]}\n",
			"\n{ \"v\" : 1.0e2,\"tool_mode\":\"x\",\"models\" :\t[ {\"slug\":\"\\u00e4\\/ü\", \"n\": 10000000000000000000001,\"deep\":{\"tool_mode\":\"x\",\"list\":[{\"tool_mode\":\"y\"}]}," +
				" \"tool_mode\" : \"direct\" ,\"apply_patch_tool_type\":null,\"experimental_supported_tools\":[],\"multi_agent_version\":null,\"supports_search_tool\":false," + window + "} ,\n" +
				"{\"multi_agent_version\":null,\"tool_mode\":\"direct\",\"apply_patch_tool_type\":null,\"experimental_supported_tools\":[],\"supports_search_tool\":false," + window + "}], \"new\":[ ]}\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := changed([]byte(test.in))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if !json.Valid(got) {
				t.Error("it is not JSON any more")
			}
			if again, err := changed(got); err != nil || string(again) != test.want {
				t.Errorf("a second time made %s (%v)", again, err)
			}
		})
	}
}

func TestNoCatalogue(t *testing.T) {
	for in, want := range map[string]string{
		``:                           "not JSON",
		`{"models":[{"slug":"a"}`:    "not JSON",
		`{"models":[]} {}`:           "not JSON",
		`[]`:                         `no list "models"`,
		`{"data":[]}`:                `no list "models"`,
		`{"models":{"slug":"a"}}`:    `no list "models"`,
		`{"models":null}`:            `no list "models"`,
		`{"models":[]}`:              "no models",
		`{"models":[{"a":1},"b"]}`:   "model 1 is not an object",
		`{"models":[["tool_mode"]]}`: "model 0 is not an object",
	} {
		if got, err := changed([]byte(in)); err == nil || !strings.Contains(err.Error(), want) || got != nil {
			t.Errorf("%s: got %q, %v; want %q", in, got, err, want)
		}
	}
}

func FuzzChangedCatalogue(f *testing.F) {
	f.Add([]byte(`{"models":[{"slug":"a","tool_mode":"x"},{}]}`))
	f.Add([]byte(`{"models":[ { "\u0074ool_mode" : [1, {"b":"}"}] } ] }`))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := changed(in)
		if err != nil {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%q became %q", in, got)
		}
		if again, err := changed(got); err != nil || string(again) != string(got) {
			t.Fatalf("%q became %q, then %q (%v)", in, got, again, err)
		}
	})
}

// The program is run as the app-server is, up to what it is to do.
func TestWriteCatalogue(t *testing.T) {
	cfg := scriptConfig(t, `
		printf '%s\n' "$@" >args
		printf '%s\n' "$CODEX_HOME" "$OWN" >env
		echo 'a warning' >&2
		cat catalogue`)
	for name, dir := range map[string]string{"of_the_file": "", "of_the_operator": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			own := *cfg
			own.Dir = dir
			files := t.TempDir()
			path := filepath.Join(files, "models.json")
			if dir == "" {
				dir = files
			}
			writeTestFile(t, filepath.Join(dir, "catalogue"), `{"models":[{"slug":"a","supports_search_tool":true}]}`)
			writeTestFile(t, path, "of an earlier start")
			if err := os.Chmod(path, 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := own.writeCatalogue(path, "CODEX_HOME=/the/codex/home", "OWN=1"); err != nil {
				t.Fatal(err)
			}
			checkTestFile(t, filepath.Join(dir, "args"), "-c\na=b\ndebug\nmodels\n-c\ncli_auth_credentials_store=\"ephemeral\"\n")
			checkTestFile(t, filepath.Join(dir, "env"), "/the/codex/home\n1\n")
			checkTestFile(t, path, `{"models":[{"slug":"a","supports_search_tool":false,"tool_mode":"direct",`+
				`"apply_patch_tool_type":null,"experimental_supported_tools":[],"multi_agent_version":null,`+
				`"context_window":null,"max_context_window":null,"auto_compact_token_limit":null}]}`)
			checkTestFile(t, filepath.Join(files, "fallback.json"), fallback)
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the file is %v (%v)", info.Mode(), err)
			}
		})
	}
	if want := []string{"-c", "a=b", "app-server", "--listen", "stdio"}; !slices.Equal(cfg.Command[2:], want) {
		t.Errorf("the command itself became %q", cfg.Command)
	}
}

func writeTestFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func checkTestFile(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s is %q (%v); want %q", filepath.Base(path), got, err, want)
	}
}

// A catalogue that cannot be made leaves the one before alone, and nothing
// else behind.
func TestWriteCatalogueFails(t *testing.T) {
	for _, test := range []struct {
		name, script string
		want         []string
	}{
		{"exit_code", `echo 'Error: broken = [' >&2; echo '  at line 7' >&2; echo >&2; echo 'Stack backtrace:' >&2; echo ' 0: <unknown>' >&2; echo '{"models":[{}]}'; exit 3`,
			[]string{"debug models", "exit status 3", "it said: Error: broken = [ at line 7"}},
		{"exit_code_without_a_word", `exit 4`, []string{"exit status 4"}},
		{"unknown_subcommand", `echo "error: unrecognized subcommand 'models'" >&2; exit 2`, []string{"exit status 2", "unrecognized subcommand"}},
		{"says_much", `yes complaint | head -n 100000 >&2; exit 5`, []string{"exit status 5", "complaint complaint", "…"}},
		{"signal", `kill -9 $$`, []string{"signal: killed"}},
		{"garbage", `echo 'Models: gpt-6'`, []string{"not JSON"}},
		{"nothing", ``, []string{"not JSON"}},
		{"empty_list", `echo '{"models":[]}'`, []string{"no models"}},
		{"huge", `echo '{"models":[{"slug":"a"}], "x":"'; exec yes`, []string{"printed more than 16777216 bytes"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			files := t.TempDir()
			path := filepath.Join(files, "models.json")
			writeTestFile(t, path, "of an earlier start")
			_, err := scriptConfig(t, test.script).writeCatalogue(path)
			for _, part := range test.want {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, without %q", err, part)
				}
			}
			if err != nil && (strings.Contains(err.Error(), "<unknown>") || len(err.Error()) > 1000) {
				t.Errorf("it says too much: %v", err)
			}
			checkTestFile(t, path, "of an earlier start")
			checkOnly(t, files, "models.json")
		})
	}
}

// checkOnly wants exactly these files in a directory.
func checkOnly(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the directory has %q; want %q", got, want)
	}
}

func TestWriteCatalogueWhereItCannot(t *testing.T) {
	cfg := scriptConfig(t, `echo '{"models":[{}]}'`)
	cfg.Dir = t.TempDir()
	if _, err := cfg.writeCatalogue(filepath.Join(t.TempDir(), "none", "models.json")); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "writing the catalogue") {
		t.Errorf("got %v", err)
	}
	taken := t.TempDir()
	if err := os.MkdirAll(filepath.Join(taken, "models.json", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := cfg.writeCatalogue(filepath.Join(taken, "models.json")); err == nil {
		t.Error("a directory was replaced")
	}
	checkOnly(t, taken, "models.json")
}

func TestCatalogueCommand(t *testing.T) {
	for _, command := range [][]string{nil, {"codex"}, {"wrapper.sh", "start"}, {"app-server"}} {
		cfg := Config{Command: command}
		_, err := cfg.writeCatalogue(filepath.Join(t.TempDir(), "models.json"))
		if err == nil || !strings.Contains(err.Error(), `"app-server"`) {
			t.Errorf("%q: got %v", command, err)
		}
	}
	cfg := Config{Command: []string{"codex-of-no-such-name", "app-server"}}
	_, err := cfg.writeCatalogue(filepath.Join(t.TempDir(), "models.json"))
	if err == nil || !strings.Contains(err.Error(), "codex-of-no-such-name debug models") {
		t.Errorf("got %v", err)
	}
}

// A program that hangs is ended, with what it has started, whoever has lost
// patience with it.
func TestCatalogueOfAProgramThatHangs(t *testing.T) {
	dir := t.TempDir()
	cfg := scriptConfig(t, `sleep 1000 & echo $! >pid; wait`)
	cfg.Dir = dir
	path := filepath.Join(dir, "models.json")
	reason := errors.New("the server ends")
	run := cfg.startCatalogue(path, os.Environ(), patience)
	pid := readPID(t, filepath.Join(dir, "pid"))
	run.abort(reason)
	if _, err := run.write(); !errors.Is(err, reason) {
		t.Errorf("got %v", err)
	}
	awaitGone(t, pid)

	_, err := cfg.startCatalogue(path, os.Environ(), 50*time.Millisecond).write()
	if err == nil || !strings.Contains(err.Error(), "did not end within 50ms") {
		t.Errorf("got %v", err)
	}
}

// One that ends but leaves a child with its output open is not waited for.
func TestCatalogueWithAnOpenEnd(t *testing.T) {
	dir := t.TempDir()
	cfg := scriptConfig(t, `sleep 1000 & echo $! >pid; echo '{"models":[{}]}'`)
	if _, err := cfg.writeCatalogue(filepath.Join(dir, "models.json")); err == nil {
		t.Error("output that may go on was taken for whole")
	}
	awaitGone(t, readPID(t, filepath.Join(dir, "pid")))
}

// TestCatalogueKnows: a model is known by its name or as a dated version of
// one. For others, that only the provider knows, the catalogue must not be
// used: Codex would take them for something else.
func TestCatalogueKnows(t *testing.T) {
	program := scriptConfig(t, `echo '{"models":[{"slug":"gpt-9"},{"slug":""},{"name":"x"},{"slug":"gpt-9-mini","use_responses_lite":true,"base_instructions":"P"}]}'`)
	models, err := program.writeCatalogue(filepath.Join(t.TempDir(), "models.json"))
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]bool{
		"gpt-9": true, "gpt-9-2026-01-01": true, "gpt-9-mini": true, "gpt-90": false, "gpt-8": false, "": false, "-": false,
	} {
		if entry := models.find(model); (entry != nil) != want {
			t.Errorf("%q is known: %t", model, !want)
		}
	}
	if entry := models.find("gpt-9-mini-2026-01-01"); entry == nil || entry.slug != "gpt-9-mini" || !entry.lite || entry.prompt != "P" {
		t.Errorf("found %+v", entry)
	}
	if (&catalogue{}).find("gpt-9") != nil {
		t.Error("no catalogue knows a model")
	}
}

// Both forks are over when Start returns, so that none happens later, beside a
// swap of listeners.
func TestStartHasForked(t *testing.T) {
	script := scriptConfig(t, `exec sleep 1000`)
	p := newTestProcess(t, "", func(cfg *Config) { cfg.Command = script.Command })
	before := childrenOfThis(t)
	p.Start()
	if n := childrenOfThis(t) - before; n != 2 {
		t.Errorf("%d children run, want the app-server and its catalogue's", n)
	}
}

// childrenOfThis counts the children of the test that run.
func childrenOfThis(t *testing.T) (n int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		needs.Missing(t, "children are counted in /proc: run this test on Linux")
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		// pid (name) state parent …; the name may hold anything.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[0] != "Z" && fields[1] == strconv.Itoa(os.Getpid()) {
			n++
		}
	}
	return n
}
