package planbackend

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
	"sync"
	"time"
)

// validity is how long a certificate is valid, and how long it has been when it is made.
const validity = 48 * time.Hour

// authority is a certificate authority.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte // its certificate

	mu    sync.Mutex
	hosts map[string]*tls.Certificate
}

// maxHosts bounds the certificates that are kept.
const maxHosts = 64

// theAuthority is that of this process: a key and a certificate for all back ends.
var theAuthority = sync.OnceValues(newAuthority)

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate(1, "caddy-codex tests")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{
		key: key, cert: cert, hosts: make(map[string]*tls.Certificate),
		pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}, nil
}

func certificate(serial int64, name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-validity), NotAfter: now.Add(validity),
	}
}

// forHost returns the certificate for the host that a client names.
func (a *authority) forHost(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	host := hello.ServerName
	if known := a.hosts[host]; known != nil {
		return known, nil
	}
	if host == "" || len(a.hosts) >= maxHosts {
		return nil, fmt.Errorf("there is no certificate for %q", host)
	}
	template := certificate(int64(len(a.hosts)+2), host)
	template.DNSNames = []string{host}
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	a.hosts[host] = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
	return a.hosts[host], nil
}
