package operations

import (
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
	"slices"
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

// TestCertificates checks that Codex trusts the certificates of the operator's file, though it gets
// them in another way to read them faster.
func TestCertificates(t *testing.T) {
	e2e.OverBoth(t, func(t *testing.T) {
		other, own := newAuthority(t, "other"), newAuthority(t, "own")
		file := filepath.Join(t.TempDir(), "certificates.pem")
		if err := os.WriteFile(file, slices.Concat(other.pem, own.pem), 0o600); err != nil {
			t.Fatal(err)
		}
		s := e2e.NewSite(t, "")
		server := httptest.NewUnstartedServer(s.Model)
		server.TLS = &tls.Config{Certificates: []tls.Certificate{own.server(t)}}
		server.StartTLS()
		t.Cleanup(server.Close)
		s.Home = t.TempDir()
		e2e.WriteHome(t, s.Home, server.URL+"/v1", codexhome.Options{})
		s.Load(s.Caddyfile(fmt.Sprintf("app_server %s app-server {\nhome %s\nenv SSL_CERT_FILE %s\n}", e2e.CodexBinary, s.Home, file)))
		s.WaitReady()
		if response, text := s.Post(e2e.ChatBody("say:trusted", nil), nil); response.StatusCode != http.StatusOK {
			t.Errorf("%s %s", response.Status, text)
		}
		checkCertificates(t)
		s.Load(s.Wrap("respond ok")) // no connection to a server is left
	})
}

// checkCertificates checks that the app-server has a further certificate.
func checkCertificates(t *testing.T) {
	t.Helper()
	e2e.WaitFor(t, "a single codex", func() bool { return len(e2e.Children()) == 1 })
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", rig.Below(os.Getpid())[0]))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains("\x00"+string(environment), "\x00CODEX_CA_CERTIFICATE=") {
		t.Errorf("Codex reads the certificates slowly: %q", environment)
	}
}
