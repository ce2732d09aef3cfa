package operations

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// authority is a certificate authority.
type authority struct {
	template *x509.Certificate
	key      *ecdsa.PrivateKey
	pem      []byte
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key, template: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.sign(t, a.template, key)})
	return a
}

func (a *authority) sign(t *testing.T, template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.template, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// server returns a certificate for a server on this machine.
func (a *authority) server(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: a.template.NotBefore, NotAfter: a.template.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	return tls.Certificate{Certificate: [][]byte{a.sign(t, template, key)}, PrivateKey: key}
}

// TestCertificates checks that Codex trusts all certificates of the operator's file and
// directory, though it gets them in another way to read them faster.
func TestCertificates(t *testing.T) {
	e2e.OverBoth(t, func(t *testing.T) {
		other, inFile, inDir := newAuthority(t, "other"), newAuthority(t, "in the file"), newAuthority(t, "in the directory")
		dir := t.TempDir()
		file := filepath.Join(t.TempDir(), "certificates.pem")
		for path, content := range map[string][]byte{file: bytes.Join([][]byte{other.pem, inFile.pem}, nil), filepath.Join(dir, "own.pem"): inDir.pem} {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := e2e.NewSite(t, "")
		for _, issuer := range []*authority{inFile, inDir} {
			server := httptest.NewUnstartedServer(s.Model)
			server.TLS = &tls.Config{Certificates: []tls.Certificate{issuer.server(t)}}
			server.StartTLS()
			t.Cleanup(server.Close)
			s.Home = t.TempDir()
			e2e.WriteHome(t, s.Home, server.URL+"/v1", codexhome.Options{})
			s.Load(s.Caddyfile(fmt.Sprintf("app_server %s app-server {\nhome %s\nenv SSL_CERT_FILE %s\nenv SSL_CERT_DIR %s\n}", e2e.CodexBinary, s.Home, file, dir)))
			s.WaitReady()
			if response, text := s.Post(e2e.ChatBody("say:trusted", nil), nil); response.StatusCode != http.StatusOK {
				t.Errorf("a certificate of the authority %q: %s %s", issuer.template.Subject.CommonName, response.Status, text)
			}
			checkCertificates(t, s, dir)
		}
		s.Load(s.Wrap("respond ok")) // no connection to a server is left
	})
}

// checkCertificates checks that the app-server has a further certificate, and not the
// directory.
func checkCertificates(t *testing.T, s *e2e.Site, dir string) {
	t.Helper()
	e2e.WaitFor(t, "a single codex", func() bool { return len(e2e.Children()) == 1 })
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", rig.Below(os.Getpid())[0]))
	if err != nil {
		t.Fatal(err)
	}
	if text := "\x00" + string(environment); !strings.Contains(text, "\x00CODEX_CA_CERTIFICATE=") || strings.Contains(text, "\x00SSL_CERT_DIR="+dir+"\x00") {
		t.Errorf("Codex reads the certificates slowly: %q", environment)
	}
}
