package appserver

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// newCertificate returns a certificate, in the format PEM, of an authority or not.
func newCertificate(t *testing.T, name string, authority bool) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: authority, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// aTrustStore is a trust store like those of Linux distributions, in a directory of the
// test.
type aTrustStore struct {
	*trustStore
	dir, bundle        string
	first, second, own string // certificates; own is only in the directory
}

func newTrustStore(t *testing.T) *aTrustStore {
	dir := t.TempDir()
	s := &aTrustStore{dir: filepath.Join(dir, "certs"), first: newCertificate(t, "first", true), second: newCertificate(t, "second", true), own: newCertificate(t, "own", true)}
	s.bundle = filepath.Join(s.dir, "ca-certificates.crt")
	s.trustStore = &trustStore{files: []string{filepath.Join(dir, "none"), s.bundle}, dirs: []string{s.dir, filepath.Join(dir, "no dir")}, others: []string{filepath.Join(dir, "codex")}}
	writeNested(t, s.bundle, "a comment\n"+newCertificate(t, "of a server", false)+s.first+s.second)
	writeNested(t, filepath.Join(s.dir, "first.pem"), s.first)
	if err := os.Symlink("first.pem", filepath.Join(s.dir, "0123abcd.0")); err != nil {
		t.Fatal(err)
	}
	return s
}

// chosen returns what certificates returns, by name.
func (s *aTrustStore) chosen(t *testing.T, command, env []string, config *providerConfig) map[string]string {
	t.Helper()
	variables := make(map[string]string)
	for _, entry := range s.certificates(t.TempDir(), command, env, config) {
		name, value, _ := strings.Cut(entry, "=")
		variables[name] = value
	}
	return variables
}

// certificatesIn returns the certificates in a file.
func certificatesIn(t *testing.T, path string) (found []string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for block := range certificatesOf(content) {
		found = append(found, string(pem.EncodeToMemory(block)))
	}
	return found
}

// TestCertificates checks that Codex gets the system's file if that has all
// certificates, an empty directory, and one certificate of the file.
func TestCertificates(t *testing.T) {
	s := newTrustStore(t)
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

// TestCertificatesOfADirectory checks that certificates which are only in the directory
// are trusted, too.
func TestCertificatesOfADirectory(t *testing.T) {
	s := newTrustStore(t)
	writeTestFile(t, filepath.Join(s.dir, "own.pem"), s.own+s.second)
	writeTestFile(t, filepath.Join(s.dir, "garbage"), "-----BEGIN CERTIFICATE-----\nnot base64\n-----END CERTIFICATE-----\n")
	got := certificatesIn(t, s.chosen(t, nil, nil, &providerConfig{})[certFileVariable])
	if want := append(certificatesIn(t, s.bundle), s.own); !slices.Equal(got, want) {
		t.Errorf("%d certificates, want %d:\n%s", len(got), len(want), got)
	}
	s.files = nil
	got = certificatesIn(t, s.chosen(t, nil, nil, &providerConfig{})[certFileVariable])
	if len(got) != 4 {
		t.Errorf("%d certificates without a file, want 4:\n%s", len(got), got)
	}
}

// TestCertificatesOfTheOperator checks that the certificates which the operator has
// chosen are trusted, and no others.
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
	got = s.chosen(t, nil, []string{certFileVariable + "=" + own, certDirVariable + "=" + s.dir + ":/no/such/dir"}, other)
	if all := certificatesIn(t, got[certFileVariable]); len(all) != 4 || all[0] != s.own || len(entries(t, got[certDirVariable])) > 0 {
		t.Errorf("%q, %q", got, all)
	}
	for _, env := range [][]string{
		{caVariable + "="}, {caVariable + "=/x"}, {caVariable + "=", certFileVariable + "=" + own},
		{certDirVariable + "=" + s.dir}, {certFileVariable + "="}, {certFileVariable + "=/no/such/file"}, {certFileVariable + "=own.pem"},
		{certFileVariable + "=" + odd}, {certFileVariable + "=" + none}, {certFileVariable + "=" + s.dir}, {certFileVariable + "=" + own, certDirVariable + "=certs"},
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
		"a proxy":              {env: []string{"HTTPS_PROXY=https://proxy.example"}},
		"a usual proxy":        {env: []string{"HTTPS_PROXY=http://proxy.example"}, set: true},
		"a configuration for all users": {change: func(s *aTrustStore) {
			writeTestFile(t, s.others[0], "")
		}},
		"no certificates": {change: func(s *aTrustStore) { s.files, s.dirs = nil, nil }},
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
	for _, variable := range os.Environ() { // addresses of proxies, too
		name, value, _ := strings.Cut(variable, "=")
		if name == "PATH" || name == "TMPDIR" {
			continue
		}
		t.Setenv(name, value) // to have it back
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	env := func() (variables int) {
		cfg := &Config{Home: operator}
		h, err := cfg.newPrivateHome(t.TempDir(), false)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range cfg.environ(h, t.TempDir()) {
			if name, _, _ := strings.Cut(entry, "="); name == certFileVariable || name == certDirVariable || name == caVariable {
				variables++
			}
		}
		return variables
	}
	want := 0
	if system := systemTrust(); system != nil && !slices.ContainsFunc(system.others, exists) {
		if _, content := system.read(); len(content) > 0 {
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
