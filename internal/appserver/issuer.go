package appserver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

const (
	// issuerURL is the URL at which Codex asks for new tokens, unless issuerVariable sets another one.
	issuerURL      = "https://auth.openai.com/oauth/token"
	issuerVariable = "CODEX_REFRESH_TOKEN_URL_OVERRIDE"
)

// tokenIssuer is the issuer of a login's tokens, reached as the app-server would reach it.
type tokenIssuer struct {
	// File is the path of the auth.json with the login.
	File string
	// Env is the environment of the app-server, as NAME=VALUE. If a name occurs twice, the last
	// value counts. Env decides which issuer, proxy and certificates are used.
	Env []string
}

// client returns an HTTP client with the proxy and the trusted certificates of the app-server.
func (i *tokenIssuer) client() (*http.Client, error) {
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

// trusted returns the certificates that the app-server trusts; nil stands for the system's certificates.
// Those of a directory that SSL_CERT_DIR names are left out: only Codex trusts them.
func (i *tokenIssuer) trusted() (pool *x509.CertPool, err error) {
	file, hasFile := lastValue(i.Env, certFileVariable)
	more, _ := lastValue(i.Env, caVariable)
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

// lastValue returns the last value of a variable in env, whose name may be in lower case there.
func lastValue(env []string, name string) (value string, set bool) {
	for _, entry := range env {
		if key, v, _ := strings.Cut(entry, "="); key == name || key == strings.ToLower(name) {
			value, set = v, true
		}
	}
	return value, set
}

// passedHeaders are the headers that are copied from Codex's request to the request to the issuer.
var passedHeaders = []string{"Accept", "Content-Type", "User-Agent", "Originator"}

// post asks the issuer for new tokens. If post fails, the answer's status is 0.
func (i *tokenIssuer) post(ctx context.Context, header http.Header, body []byte) (answer, error) {
	client, err := i.client()
	if err != nil {
		return answer{}, err
	}
	defer client.CloseIdleConnections()
	address, _ := lastValue(i.Env, issuerVariable)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, cmp.Or(address, issuerURL), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for _, name := range passedHeaders {
		request.Header[name] = header[name]
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = errors.New("its answer is too long")
	}
	if err != nil {
		return answer{}, err
	}
	return answer{response.StatusCode, response.Header.Get("Content-Type"), text}, nil
}
