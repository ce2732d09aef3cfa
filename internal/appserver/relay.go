package appserver

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxRequest bounds the body of a request of Codex, maxAnswer the body of an answer of the issuer, in
	// bytes. Usually they have some hundred and some thousand bytes.
	maxRequest = 64 << 10
	maxAnswer  = 64 << 10
	// readTimeout bounds the reading of a request, which comes from this machine.
	readTimeout = 10 * time.Second
	// askTimeout bounds a renewal. Codex waits for 15 seconds.
	askTimeout = 30 * time.Second
	// How long the relay repeats an answer for the same refresh token. keepTokens is for new
	// tokens: after that time, every app-server has read them. keepRefusal is for a refusal, which is
	// final: asking again is useless. keepFailure is for any other failure: Codex asks again
	// immediately, and gets the same answer.
	keepTokens, keepRefusal, keepFailure = 10 * time.Minute, time.Minute, time.Second
	// If an app-server sends a refresh token that was issued less than keepFresh ago, the relay
	// repeats the answer with that token. The token needs no renewal: the app-server asks only
	// because it has waited while another app-server renewed the login.
	keepFresh = 5 * time.Second
	// storeWait is the time for an app-server to store its new tokens. If the relay stored them before the
	// app-server, the app-server would find a changed login in the file, and its turn would fail.
	storeWait = 2 * time.Second
	// maxRenewals bounds the renewals that are remembered.
	maxRenewals = 256
)

// tokenRelay is a server between app-servers and the issuer of their logins' tokens, over HTTP on
// loopback. Its URL has a secret path; other paths get a 404. All methods are safe for concurrent use.
//
// An issuer accepts each refresh token only once: if a token is sent twice, the login is lost. That can
// happen if Codex is killed during a renewal, if it gives up the call that needs the renewal (some calls
// end after five seconds), or if several app-servers renew the same login at the same time.
//
// So app-servers ask a relay. The relay asks the issuer once for each refresh token, and waits for the
// answer even if no app-server waits any more. It gives the answer to all app-servers that send the old
// token. If none of them stores the new tokens, the relay does.
type tokenRelay struct {
	log        func() *slog.Logger
	server     *http.Server
	secretPath string
	url        string         // which app-servers ask in place of the issuer's URL
	running    sync.WaitGroup // the server, and renewals
	ctx        context.Context
	end        context.CancelFunc // ends ctx; close calls it with the lock of renewals
	fails      atomic.Bool        // at the last renewal, the issuer gave neither new tokens nor a refusal
	issuer     atomic.Pointer[tokenIssuer]
}

// listenRelay starts a relay on a free port. The caller sets its issuer and closes it at the end.
func listenRelay(log func() *slog.Logger) (*tokenRelay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &tokenRelay{log: log, secretPath: "/" + rand.Text()}
	r.ctx, r.end = context.WithCancel(context.Background())
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
	r.end()
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
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxRequest))
	var fields struct {
		Refresh string `json:"refresh_token"`
	}
	if err != nil || json.Unmarshal(body, &fields) != nil || fields.Refresh == "" {
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
		w.Header().Set("Content-Type", renewal.answer.contentType)
		w.Header().Set("Content-Length", strconv.Itoa(len(renewal.answer.body)))
		w.WriteHeader(renewal.answer.status)
		_, _ = w.Write(renewal.answer.body)
	case <-request.Context().Done():
		r.fails.Store(true) // the issuer has not answered in time
		renewals.Lock()
		renewal.requests--
		renewals.Unlock()
	}
}

type answer struct {
	status      int
	contentType string
	body        []byte
}

// renewal is one exchange of a refresh token for new tokens.
type renewal struct {
	done     chan struct{} // closed when answer is set
	answer   answer
	forgetAt time.Time // when the renewal is forgotten; zero: it is under way
	requests int       // how many requests wait for the answer or have got it
}

// renewals maps refresh tokens to the renewals of all relays. The relays share this map, since the
// app-servers of several relays may have the same login.
var renewals = struct {
	sync.Mutex
	byToken map[string]*renewal
}{byToken: make(map[string]*renewal)}

// renew returns the renewal for a refresh token, or begins a new one. A new renewal calls ask, and then
// makes sure that the new tokens are in file. With too many renewals, or after close, renew returns nil.
func (r *tokenRelay) renew(refreshToken, file string, ask func() answer) *renewal {
	renewals.Lock()
	defer renewals.Unlock()
	now := time.Now()
	for token, existing := range renewals.byToken {
		if !existing.forgetAt.IsZero() && now.After(existing.forgetAt) {
			delete(renewals.byToken, token)
		}
	}
	if known := renewals.byToken[refreshToken]; known != nil {
		known.requests++
		return known
	}
	if r.ctx.Err() != nil || len(renewals.byToken) >= maxRenewals {
		return nil
	}
	created := &renewal{done: make(chan struct{}), requests: 1}
	renewals.byToken[refreshToken] = created
	r.running.Go(func() {
		ans := ask()
		requests := created.finish(ans, time.Now())
		if ans.status == http.StatusOK {
			r.storeTokens(file, refreshToken, ans, requests > 0)
		}
	})
	return created
}

// finish ends a renewal, and gives its answer to all requests that wait for it. It returns the
// number of these requests. Within keepFresh, requests with the new refresh token get this answer too.
func (r *renewal) finish(ans answer, now time.Time) (requests int) {
	renewals.Lock()
	defer renewals.Unlock()
	r.answer, r.forgetAt = ans, now.Add(ans.keepTime())
	if newToken := ans.refreshToken(); newToken != "" && renewals.byToken[newToken] == nil {
		renewals.byToken[newToken] = &renewal{done: r.done, answer: ans, forgetAt: now.Add(keepFresh)}
	}
	close(r.done)
	return r.requests
}

// storeTokens stores the new tokens of an answer in file. answered means that an app-server has got
// the answer. In that case, storeTokens first waits storeWait, or until the relay is closing, so
// that the app-server can store the tokens itself.
func (r *tokenRelay) storeTokens(file, spentToken string, ans answer, answered bool) {
	if answered {
		select {
		case <-time.After(storeWait):
		case <-r.ctx.Done():
		}
	}
	if err := storeLogin(file, spentToken, ans.body, time.Now()); err != nil {
		r.log().Error("the new tokens of codex's login could not be stored", "error", err)
	}
}

func (a *answer) keepTime() time.Duration {
	switch {
	case a.status == http.StatusOK:
		return keepTokens
	case (a.status == http.StatusBadRequest || a.status == http.StatusUnauthorized) && json.Valid(a.body):
		return keepRefusal
	}
	return keepFailure
}

func (a *answer) refreshToken() string {
	var issued struct {
		Refresh string `json:"refresh_token"`
	}
	if a.status != http.StatusOK || json.Unmarshal(a.body, &issued) != nil {
		return ""
	}
	return issued.Refresh
}

// ask asks the issuer for new tokens. Without an answer, it returns the status 502.
func (r *tokenRelay) ask(i *tokenIssuer, header http.Header, body []byte) answer {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	ans, err := i.post(ctx, header, body)
	if err == nil && ans.status != http.StatusOK {
		err = fmt.Errorf("it answers %d %s", ans.status, http.StatusText(ans.status))
	}
	if err != nil {
		r.log().Warn("codex's login could not be renewed at its issuer", "error", err)
		if ans.status == 0 {
			ans = answer{http.StatusBadGateway, "text/plain", []byte("the issuer of the login cannot be reached")}
		}
		return ans
	}
	r.log().Info("codex's login was renewed")
	return ans
}
