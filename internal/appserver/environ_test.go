package appserver

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// clearEnvironment unsets all other variables, until the end of the test.
func clearEnvironment(t *testing.T, except ...string) {
	for _, variable := range os.Environ() {
		if name, value, _ := strings.Cut(variable, "="); !slices.Contains(except, name) {
			t.Setenv(name, value) // to have it back
			must.OK(t, os.Unsetenv(name))
		}
	}
}

// A program gets the variables that it may have, and no others.
func TestEnvironment(t *testing.T) {
	operator, temp := t.TempDir(), t.TempDir()
	writeTestFile(t, filepath.Join(operator, configFile), "[model_providers.p]\nenv_key = \"PROVIDER_KEY\"\nenv_http_headers = { X = \"PROVIDER_HEADER\" }\n")
	want := map[string]string{
		"PATH": os.Getenv("PATH"), "LC_ALL": "C", "TZ": "UTC", "http_proxy": "http://a", "HTTPS_PROXY": "http://b", "SSL_CERT_FILE": "/c",
		"CODEX_ACCESS_TOKEN": "d", "RUST_LOG": "e", "PROVIDER_KEY": "f", "PROVIDER_HEADER": "g", "OPENAI_PROJECT": "h",
	}
	clearEnvironment(t)
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
	private := p.private.Load().path
	for _, name := range []string{"CODEX_HOME", "HOME"} {
		if !strings.HasPrefix(got[name], filepath.Join(private, "home-")) {
			t.Errorf("%s is %q", name, got[name])
		}
		delete(got, name)
	}
	if address := got[issuerVariable]; p.relay.Load() == nil || address != p.relay.Load().url {
		t.Errorf("new tokens are at %q", address)
	}
	delete(got, issuerVariable)
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
		if got := noProxyVariables(strings.Fields(env)); !slices.Equal(got, both) {
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
	home, err := cfg.newPrivateHome(t.TempDir())
	must.OK(t, err)
	if got, err := os.ReadFile(home.codexFile(variablesFile)); string(got) != "HTTP_PROXY=\"http://p\"\n" {
		t.Errorf("the file is %q, %v", got, err)
	}
	if env, want := cfg.environ(home, ""), "no_proxy=b.example,"+loopback; !slices.Contains(env, want) || !slices.Contains(home.variables, "HTTP_PROXY=http://p") {
		t.Errorf("%q has no %s", env, want)
	}
}

// readWhole reads a file once its last line is there.
func readWhole(t *testing.T, path string) (content string) {
	t.Helper()
	must.Happen(t, "a whole file "+path, func() (whole bool) {
		written, _ := os.ReadFile(path) // without the file, there is no end
		content, whole = strings.CutSuffix(string(written), "THE END\n")
		return whole
	})
	return content
}

// TestVariablesInCapitals checks that the lists for Windows are in upper case.
func TestVariablesInCapitals(t *testing.T) {
	for _, name := range slices.Concat(inheritedVariables, windowsVariables) {
		if name != strings.ToUpper(name) {
			t.Errorf("%s is not in capitals", name)
		}
	}
}

// newCertificate returns a certificate, in the format PEM, of an authority or not.
func newCertificate(t *testing.T, name string, authority bool) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: authority, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must.OK(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// aTrustStore is a trust store like those of Linux distributions.
type aTrustStore struct {
	*trustStore
	dir, bundle        string
	first, second, own string // certificates; own is only in the directory
}

func newTrustStore(t *testing.T) *aTrustStore {
	dir := t.TempDir()
	s := &aTrustStore{dir: filepath.Join(dir, "certs"), first: newCertificate(t, "first", true), second: newCertificate(t, "second", true), own: newCertificate(t, "own", true)}
	s.bundle = filepath.Join(s.dir, "ca-certificates.crt")
	s.trustStore = &trustStore{files: []string{filepath.Join(dir, "none"), s.bundle}, dirs: []string{s.dir, filepath.Join(dir, "no dir")}, unusualPaths: []string{filepath.Join(dir, "codex")}}
	writeNested(t, s.bundle, "a comment\n"+newCertificate(t, "of a server", false)+s.first+s.second)
	writeNested(t, filepath.Join(s.dir, "first.pem"), s.first)
	must.OK(t, os.Symlink("first.pem", filepath.Join(s.dir, "0123abcd.0")))
	return s
}

// chosen returns what certificates returns, by name.
func (s *aTrustStore) chosen(t *testing.T, command, env []string, config *providerConfig) map[string]string {
	t.Helper()
	variables := make(map[string]string)
	for _, entry := range s.writeCertificates(t.TempDir(), command, env, config) {
		name, value, _ := strings.Cut(entry, "=")
		variables[name] = value
	}
	return variables
}

// certificatesIn returns the certificates in a file.
func certificatesIn(t *testing.T, path string) (found []string) {
	t.Helper()
	content, err := os.ReadFile(path)
	must.OK(t, err)
	for block := range certificatesOf(content) {
		found = append(found, string(pem.EncodeToMemory(block)))
	}
	return found
}

// TestCertificates checks that Codex gets the system's file if that has all authorities,
// though not all certificates, an empty directory, and one certificate of the file.
func TestCertificates(t *testing.T) {
	s := newTrustStore(t)
	writeNested(t, filepath.Join(s.dir, "snakeoil.pem"), newCertificate(t, "no authority", false))
	got := s.chosen(t, []string{"codex", "app-server"}, []string{"PATH=/bin"}, &providerConfig{})
	if got[certFileVariable] != s.bundle {
		t.Errorf("the file is %q, want that of the system", got[certFileVariable])
	}
	if names := entries(t, got[certDirVariable]); len(names) != 0 {
		t.Errorf("the directory has %q", names)
	}
	if one := certificatesIn(t, got[caVariable]); len(one) != 1 || one[0] != s.first {
		t.Errorf("the further certificate is %q", one)
	}
}

// The certificates which the operator has chosen are trusted, and no others.
func TestCertificatesOfTheOperator(t *testing.T) {
	s := newTrustStore(t)
	own := filepath.Join(t.TempDir(), "own.pem")
	writeTestFile(t, own, s.own)
	odd := filepath.Join(t.TempDir(), "odd.pem")
	writeTestFile(t, odd, s.own+strings.ReplaceAll(s.first, "CERTIFICATE", "TRUSTED CERTIFICATE"))
	none := filepath.Join(t.TempDir(), "none.pem")
	writeTestFile(t, none, newCertificate(t, "of a server", false))
	other := &providerConfig{OpenAIBaseURL: "https://other.example"}
	got := s.chosen(t, nil, []string{certFileVariable + "=/no/such/file", certFileVariable + "=" + own}, other)
	if one := certificatesIn(t, got[caVariable]); got[certFileVariable] != own || len(entries(t, got[certDirVariable])) > 0 || len(one) != 1 || one[0] != s.own {
		t.Errorf("%q, %q", got, one)
	}
	for _, env := range [][]string{
		{caVariable + "="}, {caVariable + "=/x"}, {caVariable + "=", certFileVariable + "=" + own},
		{certDirVariable + "=" + s.dir}, {certFileVariable + "="}, {certFileVariable + "=/no/such/file"}, {certFileVariable + "=own.pem"},
		{certFileVariable + "=" + odd}, {certFileVariable + "=" + none}, {certFileVariable + "=" + s.dir}, {certFileVariable + "=" + own, certDirVariable + "=" + s.dir},
	} {
		if got := s.chosen(t, nil, env, &providerConfig{}); len(got) != 0 {
			t.Errorf("with %q: %q", env, got)
		}
	}
}

// TestCertificatesOfOthers checks that nothing changes where Codex may connect to a
// server with an unusual certificate, or the system is unusual.
func TestCertificatesOfOthers(t *testing.T) {
	provider := func(address any) *providerConfig {
		return &providerConfig{ModelProviders: map[string]map[string]any{"p": {"base_url": address}}}
	}
	for name, test := range map[string]struct {
		command, env []string
		config       *providerConfig
		change       func(*aTrustStore)
		set          bool
	}{
		"OpenAI":               {config: &providerConfig{OpenAIBaseURL: "https://eu.api.openai.com/v1", ChatGPTBaseURL: "https://chatgpt.com/backend-api/"}, set: true},
		"a provider of OpenAI": {config: provider("https://API.openai.com:443/v1"), set: true},
		"a local provider":     {config: provider("http://localhost:11434/v1"), set: true},
		"no address":           {config: provider(nil), set: true},
		"a provider":           {config: provider("https://gateway.example/v1")},
		"in capitals":          {config: provider("HTTPS://gateway.example/v1")},
		"a socket":             {config: provider("wss://gateway.example/v1")},
		"a similar name":       {config: provider("https://notopenai.com/v1")},
		"a user":               {config: provider("https://api.openai.com@gateway.example/v1")},
		"no URL":               {config: provider("https://api.openai.com:x/v1")},
		"another OpenAI":       {config: &providerConfig{OpenAIBaseURL: "https://gateway.example/v1"}},
		"another ChatGPT":      {config: &providerConfig{ChatGPTBaseURL: "https://gateway.example/v1"}},
		"an argument":          {command: []string{"codex", "-c", `model_providers.p.base_url="https://gateway.example"`, "app-server"}},
		"two in an argument":   {command: []string{"codex", "-c", `model_providers={a={base_url="https://api.openai.com/v1"},b={base_url="https://gateway.example/v1"}}`}},
		"two of OpenAI":        {command: []string{"codex", "-c", `model_providers={a={base_url="https://api.openai.com/v1"},b={base_url="https://eu.api.openai.com/v1"}}`}, set: true},
		"a proxy":              {env: []string{"HTTPS_PROXY=https://proxy.example"}},
		"a usual proxy":        {env: []string{"HTTPS_PROXY=http://proxy.example"}, set: true},
		"a configuration for all users": {change: func(s *aTrustStore) {
			writeTestFile(t, s.unusualPaths[0], "")
		}},
		"no certificates":           {change: func(s *aTrustStore) { s.files, s.dirs = nil, nil }},
		"certificates without file": {change: func(s *aTrustStore) { s.files = nil }},
		"one only in the directory": {change: func(s *aTrustStore) { writeTestFile(t, filepath.Join(s.dir, "own.pem"), s.second+s.own) }},
		"no certificate in the directory": {set: true, change: func(s *aTrustStore) {
			writeTestFile(t, filepath.Join(s.dir, "garbage"), "-----BEGIN CERTIFICATE-----\nnot base64\n-----END CERTIFICATE-----\n")
		}},
		"too large": {change: func(s *aTrustStore) {
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				writeTestFile(t, filepath.Join(s.dir, name), string(bytes.Repeat([]byte("x\n"), maxConfig/2)))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTrustStore(t)
			if test.config == nil {
				test.config = &providerConfig{}
			}
			if test.change != nil {
				test.change(s)
			}
			if got := s.chosen(t, test.command, test.env, test.config); len(got) > 0 != test.set {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestCertificatesInEnvironment checks that a program of this system gets the variables
// where the system has certificates, and that a .env file replaces them.
func TestCertificatesInEnvironment(t *testing.T) {
	operator := t.TempDir()
	clearEnvironment(t, "PATH", "TMPDIR") // of addresses of proxies, too
	env := func() (variables int) {
		cfg := &Config{Home: operator}
		h, err := cfg.newPrivateHome(t.TempDir())
		must.OK(t, err)
		for _, entry := range cfg.environ(h, t.TempDir()) {
			if name, _, _ := strings.Cut(entry, "="); name == certFileVariable || name == certDirVariable || name == caVariable {
				variables++
			}
		}
		return variables
	}
	want := 0
	if system := systemTrust(); system != nil && !slices.ContainsFunc(system.unusualPaths, exists) {
		if _, content := system.completeFile(); len(content) > 0 {
			want = 3
		}
	}
	if got := env(); got != want {
		t.Errorf("%d variables, want %d", got, want)
	}
	writeTestFile(t, filepath.Join(operator, variablesFile), "SSL_CERT_DIR=/x\n")
	if got := env(); got != 0 {
		t.Errorf("%d variables beside those of the .env file", got)
	}
}
