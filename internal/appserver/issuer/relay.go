// Package issuer puts a server, the [Relay], between app-servers and the issuer of the tokens of
// their logins.
//
// An issuer accepts each refresh token only once. If Codex sends a token twice, the login is lost.
// That can happen if Codex is killed during a renewal, if Codex gives up the call that needs the
// renewal (some calls end after five seconds), or if several app-servers renew the same login at
// the same time.
//
// So app-servers ask a Relay instead. The Relay asks the issuer only once for each refresh token,
// and waits for the answer even if no app-server waits any more. It gives the same answer to all
// app-servers with the old token. It stores the new tokens if no app-server stores them.
package issuer

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultURL is the URL at which Codex asks for new tokens if [Variable] is not set.
const DefaultURL = "https://auth.openai.com/oauth/token"

// Variable is the environment variable that sets another URL at which Codex asks for new tokens.
const Variable = "CODEX_REFRESH_TOKEN_URL_OVERRIDE"

const (
	// maxRequest bounds the body of a request for new tokens, and maxAnswer the body of the answer,
	// in bytes. The usual sizes are some hundred bytes and some kilobytes.
	maxRequest = 64 << 10
	maxAnswer  = 64 << 10
	// readTimeout bounds the reading of a request, which comes from this machine.
	readTimeout = 10 * time.Second
)

// Issuer says how to ask the issuer of a login, and where the login is.
type Issuer struct {
	// File is the path of the auth.json with the login.
	File string
	// Env is the environment of the app-server, as NAME=VALUE. If a name occurs twice, the last
	// value counts. Env decides which issuer, proxy and certificates are used.
	Env []string
}

// Relay is an HTTP server on loopback. It answers the requests for new tokens from the app-servers
// that share one login. Its URL has a secret path; requests with another path get a 404. All
// methods are safe for concurrent use.
type Relay struct {
	log        func() *slog.Logger
	server     *http.Server
	address    string
	secretPath string         // the secret path of the URL
	running    sync.WaitGroup // the server, and renewals
	closed     bool           // Close was called; guarded by the lock of renewals
	closing    chan struct{}  // closed when closed is set
	fails      atomic.Bool    // at the last renewal, the issuer gave neither new tokens nor a refusal

	mu     sync.Mutex
	issuer Issuer
}

// Listen starts a relay on a free port. The caller must set the relay's issuer with
// [Relay.SetIssuer], and close the relay at the end.
func Listen(log func() *slog.Logger) (*Relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{log: log, address: listener.Addr().String(), secretPath: "/" + rand.Text(), closing: make(chan struct{})}
	r.server = &http.Server{
		Handler: r, ReadTimeout: readTimeout, IdleTimeout: readTimeout, MaxHeaderBytes: maxRequest,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), // no errors about app-servers that disconnect
	}
	r.running.Go(func() { _ = r.server.Serve(listener) }) // returns on Close
	return r, nil
}

// URL returns the URL that app-servers ask in place of the issuer's URL.
func (r *Relay) URL() string { return "http://" + r.address + r.secretPath }

// IssuerFails reports whether the issuer has failed at the last renewal, so that the login was neither
// renewed nor refused.
func (r *Relay) IssuerFails() bool { return r.fails.Load() }

// SetIssuer sets the issuer for later renewals.
func (r *Relay) SetIssuer(i Issuer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.issuer = i
}

// Client returns a client with the same proxy and certificates as the app-server. It fails if the
// system's certificates are needed and cannot be read.
func (r *Relay) Client() (*http.Client, error) {
	r.mu.Lock()
	issuer := r.issuer
	r.mu.Unlock()
	return issuer.client()
}

// Close ends the relay. It waits for the renewals under way, since their new tokens would otherwise
// be lost. A renewal takes askTimeout at most.
func (r *Relay) Close() {
	renewals.Lock()
	if !r.closed {
		r.closed = true
		close(r.closing)
	}
	renewals.Unlock()
	_ = r.server.Close() // fails only if the listener is closed already
	r.running.Wait()
}

// ServeHTTP implements [http.Handler].
func (r *Relay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if subtle.ConstantTimeCompare([]byte(request.URL.Path), []byte(r.secretPath)) == 0 || request.Method != http.MethodPost {
		http.NotFound(w, request)
		return
	}
	body, err := io.ReadAll(io.LimitReader(request.Body, maxRequest+1))
	var fields struct {
		Refresh string `json:"refresh_token"`
	}
	if err != nil || len(body) > maxRequest || json.Unmarshal(body, &fields) != nil || fields.Refresh == "" {
		http.Error(w, "this is no renewal of a login", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	issuer := r.issuer
	r.mu.Unlock()
	renewal := r.renew(fields.Refresh, issuer.File, func() answer { return r.ask(issuer, request.Header, body) })
	if renewal == nil {
		r.fails.Store(true)
		http.Error(w, "no login can be renewed now", http.StatusServiceUnavailable)
		return
	}
	select {
	case <-renewal.done:
		r.fails.Store(renewal.answer.keepTime() == keepFailure)
		renewal.answer.write(w)
	case <-request.Context().Done():
		r.fails.Store(true) // in time
		renewal.removeRequest()
	}
}

// lastValue returns the last value of a variable in an environment. It also accepts the name in
// lower case.
func lastValue(env []string, name string) (value string, set bool) {
	for _, entry := range env {
		if key, v, _ := strings.Cut(entry, "="); key == name || key == strings.ToLower(name) {
			value, set = v, true
		}
	}
	return value, set
}
