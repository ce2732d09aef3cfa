package appserver

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxRequest and maxAnswer bound the bodies; usual are some hundred bytes and some kilobytes.
	maxRequest = 64 << 10
	maxAnswer  = 64 << 10
	// readTimeout bounds the reading of a request, which comes from this machine.
	readTimeout = 10 * time.Second
)

// tokenRelay is a server between app-servers and the issuer of their logins' tokens, over HTTP on
// loopback. Its URL has a secret path; others get a 404. All methods are safe for concurrent use.
//
// An issuer accepts each refresh token only once: sent twice, the login is lost. That can happen if
// Codex is killed during a renewal, gives up the call that needs it (some end after five seconds),
// or if several app-servers renew the same login at the same time.
//
// So app-servers ask a relay. It asks the issuer once for each refresh token, waits for the answer
// even if no app-server does any more, gives it to all with the old token, and stores the new
// tokens if none of them does.
type tokenRelay struct {
	log        func() *slog.Logger
	server     *http.Server
	secretPath string
	url        string         // which app-servers ask in place of the issuer's URL
	running    sync.WaitGroup // the server, and renewals
	closed     bool           // close was called; guarded by the lock of renewals
	closing    chan struct{}  // closed when closed is set
	fails      atomic.Bool    // at the last renewal, the issuer gave neither new tokens nor a refusal
	issuer     atomic.Pointer[tokenIssuer]
}

// listenRelay starts a relay on a free port. The caller sets its issuer and closes it at the end.
func listenRelay(log func() *slog.Logger) (*tokenRelay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &tokenRelay{log: log, secretPath: "/" + rand.Text(), closing: make(chan struct{})}
	r.url = "http://" + listener.Addr().String() + r.secretPath
	r.server = &http.Server{
		Handler: r, ReadTimeout: readTimeout, IdleTimeout: readTimeout, MaxHeaderBytes: maxRequest,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), // no errors about app-servers that disconnect
	}
	r.running.Go(func() { _ = r.server.Serve(listener) }) // returns on close
	return r, nil
}

// close ends the relay. It waits for the renewals under way, since their new tokens would otherwise
// be lost. A renewal takes askTimeout at most.
func (r *tokenRelay) close() {
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
func (r *tokenRelay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
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
	issuer := r.issuer.Load()
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
