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
	"net"
	"sync"
	"time"
)

// validity is how long a certificate is valid, and how long it has been when it is made.
const validity = 48 * time.Hour

// Authority is a certificate authority.
type Authority struct {
	PEM []byte // its certificate

	key  *ecdsa.PrivateKey
	cert *x509.Certificate

	mu    sync.Mutex
	hosts map[string]*tls.Certificate
}

// maxHosts bounds the certificates that are kept.
const maxHosts = 64

// theAuthority is that of this process: a key and a certificate for all back ends.
var theAuthority = sync.OnceValues(NewAuthority)

// NewAuthority returns an authority that nobody knows yet.
func NewAuthority() (*Authority, error) {
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
	return &Authority{
		key: key, cert: cert, hosts: make(map[string]*tls.Certificate),
		PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}, nil
}

func certificate(serial int64, name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-validity), NotAfter: now.Add(validity),
	}
}

// ForHost returns the certificate for a host or an address.
func (a *Authority) ForHost(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.hosts[host]; known != nil {
		return known, nil
	}
	if host == "" || len(a.hosts) >= maxHosts {
		return nil, fmt.Errorf("there is no certificate for %q", host)
	}
	template := certificate(int64(len(a.hosts)+2), host)
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	a.hosts[host] = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
	return a.hosts[host], nil
}
