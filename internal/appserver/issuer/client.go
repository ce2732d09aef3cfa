package issuer

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"golang.org/x/net/http/httpproxy"
)

// These variables name the files of certificates that Codex trusts. Those of a directory that
// SSL_CERT_DIR names are trusted by Codex alone.
const (
	certFile = "SSL_CERT_FILE"
	moreCA   = "CODEX_CA_CERTIFICATE"
)

// client returns an HTTP client with the proxy and the trusted certificates of the app-server.
func (i *Issuer) client() (*http.Client, error) {
	trusted, err := i.trusted()
	if err != nil {
		return nil, err
	}
	all, _ := lastValue(i.Env, "ALL_PROXY")
	proxies := httpproxy.Config{HTTPProxy: all, HTTPSProxy: all}
	for name, field := range map[string]*string{"HTTP_PROXY": &proxies.HTTPProxy, "HTTPS_PROXY": &proxies.HTTPSProxy, "NO_PROXY": &proxies.NoProxy} {
		if value, set := lastValue(i.Env, name); set {
			*field = value
		}
	}
	proxyFor := proxies.ProxyFunc()
	return &http.Client{
		Transport: &http.Transport{
			Proxy:             func(r *http.Request) (*url.URL, error) { return proxyFor(r.URL) },
			TLSClientConfig:   &tls.Config{RootCAs: trusted},
			ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// trusted returns the certificates that the app-server trusts. nil stands for the system's
// certificates.
func (i *Issuer) trusted() (pool *x509.CertPool, err error) {
	file, hasFile := lastValue(i.Env, certFile)
	more, _ := lastValue(i.Env, moreCA)
	switch {
	case hasFile:
		pool = x509.NewCertPool()
	case more == "":
		return nil, nil
	default:
		if pool, err = x509.SystemCertPool(); err != nil {
			return nil, fmt.Errorf("reading the certificates of the system: %w", err)
		}
	}
	for _, path := range []string{file, more} {
		if content, err := os.ReadFile(path); err == nil {
			pool.AppendCertsFromPEM(content)
		}
	}
	return pool, nil
}
