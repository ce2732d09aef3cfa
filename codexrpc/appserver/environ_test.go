package appserver

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc/appserver/issuer"
)

// TestEnvironment checks that a program gets the variables that it may have, and no
// others.
func TestEnvironment(t *testing.T) {
	operator, temp := t.TempDir(), t.TempDir()
	writeTestFile(t, filepath.Join(operator, configFile), "[model_providers.p]\nenv_key = \"PROVIDER_KEY\"\nenv_http_headers = { X = \"PROVIDER_HEADER\" }\n")
	want := map[string]string{
		"PATH": os.Getenv("PATH"), "LC_ALL": "C", "TZ": "UTC", "http_proxy": "http://a", "HTTPS_PROXY": "http://b", "SSL_CERT_FILE": "/c",
		"CODEX_ACCESS_TOKEN": "d", "RUST_LOG": "e", "PROVIDER_KEY": "f", "PROVIDER_HEADER": "g", "OPENAI_PROJECT": "h",
	}
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value) // to have it back
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range want {
		t.Setenv(name, value)
	}
	for _, name := range []string{"OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "CODEX_SQLITE_HOME", "NODE_OPTIONS", "Path_proxy", "PROVIDER_KEY_2", "CADDY_TOKEN"} {
		t.Setenv(name, "secret")
	}
	t.Setenv("HOME", "/of/the/user")
	t.Setenv("TMPDIR", temp)

	program := scriptConfig(t, `[ "$1" = debug ] && exit 0; env >"$OUT"; echo "THE END" >>"$OUT"; exec sleep 1000`)
	out := filepath.Join(t.TempDir(), "env")
	p := startProcess(t, "", func(cfg *Config) {
		cfg.Command, cfg.Home = append(program.Command[:2:2], appServerCommand), operator
		cfg.Env = map[string]string{"OUT": out, "PATH": "/own:" + want["PATH"], "TZ": "", "CODEX_HOME": "/not/this"}
	})
	got := make(map[string]string)
	for variable := range strings.Lines(readWhole(t, out)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(variable, "\n"), "=")
		got[name] = value
	}
	private := p.private.path
	for _, name := range []string{"CODEX_HOME", "HOME"} {
		if !strings.HasPrefix(got[name], filepath.Join(private, "home-")) {
			t.Errorf("%s is %q", name, got[name])
		}
		delete(got, name)
	}
	if address := got[issuer.Variable]; p.relay == nil || address != p.relay.URL() {
		t.Errorf("new tokens are at %q", address)
	}
	delete(got, issuer.Variable)
	for _, name := range []string{"PWD", "SHLVL", "_", "OLDPWD"} { // the shell's own
		delete(got, name)
	}
	want["OUT"], want["PATH"], want["TZ"], want["TMPDIR"] = out, "/own:"+want["PATH"], "", filepath.Join(private, "tmp")
	want["NO_PROXY"], want["no_proxy"] = loopback, loopback
	if !maps.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestBesideProxy checks which hosts a program reaches without its proxy.
func TestBesideProxy(t *testing.T) {
	for env, want := range map[string]string{
		"PATH=/bin":                             "",
		"NO_PROXY=a.example":                    "",
		"HTTP_PROXY=":                           "",
		"HTTPS_PROXY=http://p":                  loopback,
		"all_proxy=http://p no_proxy=a.example": "a.example," + loopback,
		"http_proxy=http://p no_proxy=b NO_PROXY=a NO_PROXY=c,d": "c,d," + loopback,
	} {
		var both []string
		if want != "" {
			both = []string{"NO_PROXY=" + want, "no_proxy=" + want}
		}
		if got := besideProxy(strings.Fields(env)); !slices.Equal(got, both) {
			t.Errorf("%s: %q", env, got)
		}
	}
}

// TestBesideTheProxyOfAFile checks that Codex, which prefers its .env file, does not read there that this
// machine is reached through a proxy.
func TestBesideTheProxyOfAFile(t *testing.T) {
	operator := t.TempDir()
	writeTestFile(t, filepath.Join(operator, variablesFile), "HTTP_PROXY=\"http://p\"\nno_proxy='a.example'\n")
	cfg := Config{Home: operator, Env: map[string]string{"NO_PROXY": "b.example"}}
	home, err := cfg.newPrivateHome(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(home.file(variablesFile)); string(got) != "HTTP_PROXY=\"http://p\"\n" {
		t.Errorf("the file is %q, %v", got, err)
	}
	if env, want := cfg.environ(home, ""), "no_proxy=b.example,"+loopback; !slices.Contains(env, want) || !slices.Contains(home.variables, "HTTP_PROXY=http://p") {
		t.Errorf("%q has no %s", env, want)
	}
}

// readWhole reads a file once its last line is there.
func readWhole(t *testing.T, path string) string {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if content, err := os.ReadFile(path); err == nil && strings.HasSuffix(string(content), "THE END\n") {
			return strings.TrimSuffix(string(content), "THE END\n")
		}
	}
	t.Fatal("nothing was written to", path)
	return ""
}

// TestVariablesInCapitals checks that the lists for Windows are in upper case.
func TestVariablesInCapitals(t *testing.T) {
	for _, name := range slices.Concat(inheritedVariables, windowsVariables) {
		if name != strings.ToUpper(name) {
			t.Errorf("%s is not in capitals", name)
		}
	}
}
