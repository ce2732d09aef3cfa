package appserver

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// privateConfigOf returns the private config.toml for an operator's.
func privateConfigOf(t *testing.T, home, config string) (text string, variables []string) {
	t.Helper()
	writeTestFile(t, filepath.Join(home, configFile), config)
	read, err := readOperatorConfig(home)
	must.OK(t, err)
	private, err := read.encodePrivate()
	must.OK(t, err)
	variables = read.variableNames()
	slices.Sort(variables)
	return string(private), variables
}

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	var data map[string]any
	if err := toml.Unmarshal([]byte(text), &data); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return data
}

const ownSettings = `
project_root_markers = []
[features]
plugins = false
apps = false
hooks = false
memories = false
[analytics]
enabled = false
[skills]
include_instructions = false
[skills.bundled]
enabled = false
`

func TestPrivateConfig(t *testing.T) {
	home := t.TempDir()
	const providers = `
[model_providers.one]
name = "One"
base_url = "http://127.0.0.1:1/v1"
env_key = "ONE_KEY"
wire_api = "responses"
requires_openai_auth = false
stream_max_retries = 0
query_params = { api-version = "1" }
http_headers = { X-A = "b" }
env_http_headers = { X-B = "HEADER_B", X-C = "HEADER_C" }
[model_providers.two.auth]
command = "./token"
args = ["-x"]
`
	for _, test := range []struct {
		name, config, want string
		variables          []string
	}{
		{name: "empty"},
		{
			name: "what_chooses_the_provider",
			config: `
model = "gpt-9"
model_provider = "one"
model_context_window = 1000
model_catalog_json = "models.json"
openai_base_url = "https://a/v1"
chatgpt_base_url = "https://b/"
forced_login_method = "api"
forced_chatgpt_workspace_id = ["w", "v"]
cli_auth_credentials_store = "ephemeral"
` + providers,
			want: `
model = "gpt-9"
model_provider = "one"
model_context_window = 1000
model_catalog_json = "` + home + `/models.json"
openai_base_url = "https://a/v1"
chatgpt_base_url = "https://b/"
forced_login_method = "api"
forced_chatgpt_workspace_id = ["w", "v"]
cli_auth_credentials_store = "ephemeral"
` + providers + "cwd = \"" + home + "\"\n",
			variables: []string{"HEADER_B", "HEADER_C", "ONE_KEY"},
		},
		{
			name: "all_else",
			config: `
developer_instructions = "x"
notify = ["x"]
model_instructions_file = "x"
model_reasoning_effort = "high"
experimental_thread_config_endpoint = "https://x"
project_root_markers = ["x"]
[mcp_servers.x]
command = "x"
[features]
plugins = true
shell_tool = true
[skills.bundled]
enabled = true
[profiles.x]
model_provider = "x"
[projects."/"]
trust_level = "trusted"
[analytics]
enabled = true
`,
		},
		{name: "keyring", config: `cli_auth_credentials_store = "keyring"`, want: `cli_auth_credentials_store = "file"`},
		{name: "keyring_where_there_is_one", config: `cli_auth_credentials_store = "auto"`, want: `cli_auth_credentials_store = "file"`},
		{name: "absolute_paths", config: `model_catalog_json = "/a/models.json"`, want: `model_catalog_json = "/a/models.json"`},
		{name: "paths_in_the_home_directory", config: `model_catalog_json = "~/models.json"`, want: `model_catalog_json = "~/models.json"`},
		{
			name:   "directory_of_a_login_command",
			config: "[model_providers.p]\nauth = { command = \"x\", cwd = \"sub\" }",
			want:   "[model_providers.p]\nauth = { command = \"x\", cwd = \"" + home + "/sub\" }",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, variables := privateConfigOf(t, home, test.config)
			want := decoded(t, ownSettings)
			for key, value := range decoded(t, test.want) {
				want[key] = value
			}
			if got := decoded(t, text); !reflect.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			if !slices.Equal(variables, test.variables) {
				t.Errorf("it names the variables %q; want %q", variables, test.variables)
			}
		})
	}
}

func TestSystemProxyIsTakenOver(t *testing.T) {
	text, _ := privateConfigOf(t, t.TempDir(), "[features]\nrespect_system_proxy = true")
	if features := decoded(t, text)["features"].(map[string]any); features["respect_system_proxy"] != true || features["plugins"] != false {
		t.Errorf("the features are %v", features)
	}
}

// A config.toml that cannot be parsed is an error: without it Codex would use another provider.
func TestBrokenConfig(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, configFile)
	for config, want := range map[string]string{
		"model = \"a\"\nmodel_provider = [\n[features]\n": path + ": line 3 ",
		"\n\nmodel = 3\n":                               path + ": line 3 ",
		"model = \"a\"\nmodel = \"b\"\n":                path + ": line 2 ",
		"[model_providers]\nx = 1\n":                    path + ": model_providers.x is not a table",
		"profile = \"work\"\n":                          path + `: it selects the profile "work"`,
		"x = \"" + strings.Repeat("y", maxConfig) + `"`: "larger than",
	} {
		writeTestFile(t, path, config)
		if _, err := readOperatorConfig(home); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: got %v, without %q", config, err, want)
		}
	}
	must.OK(t, os.Remove(path))
	must.OK(t, os.Mkdir(path, 0o700))
	if _, err := readOperatorConfig(home); err == nil {
		t.Error("a directory was read as a configuration")
	}
}

// FuzzPrivateConfig checks that each config.toml that can be parsed gives one that
// Codex can parse, with the same providers.
func FuzzPrivateConfig(f *testing.F) {
	f.Add("model = \"a\"\n[model_providers.\"a b\".x.y]\nz = [1, {b = 1979-05-27T07:32:00Z}, \"c\", [1.5, nan]]\n")
	f.Add("model_providers.a.b = \"\"\"\n\\u0000\"\"\"\nforced_chatgpt_workspace_id = [{a = 1}, []]\n")
	f.Fuzz(func(t *testing.T, config string) {
		read, err := parseOperatorConfig([]byte(config))
		if err != nil {
			return
		}
		private, err := read.encodePrivate()
		if err != nil {
			t.Fatalf("%q cannot be written: %v", config, err)
		}
		again, err := parseOperatorConfig(private)
		if err != nil {
			t.Fatalf("%q became %q: %v", config, private, err)
		}
		if len(again.ModelProviders) != len(read.ModelProviders) || again.Model != read.Model {
			t.Fatalf("%q became %q", config, private)
		}
	})
}

// A pipe in the place of a file is refused and not waited for.
func TestPipesInTheHome(t *testing.T) {
	for name, fatal := range map[string]bool{configFile: true, variablesFile: true, installationIDFile: false} {
		operator := t.TempDir()
		if err := syscall.Mkfifo(filepath.Join(operator, name), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := &Config{Home: operator}
		home, err := cfg.newPrivateHome(t.TempDir())
		switch {
		case !fatal && err != nil:
			t.Errorf("%s: %v", name, err)
		case fatal && (err == nil || !strings.Contains(err.Error(), "is not a regular file")):
			t.Errorf("%s: the error is %v", name, err)
		}
		if err := home.remove(); err != nil {
			t.Error(err)
		}
	}
}
