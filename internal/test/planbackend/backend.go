package planbackend

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
)

// The hosts that Codex asks.
const (
	chatgpt = "chatgpt.com"
	auth    = "auth.openai.com"
)

// Options are the options of a [Backend].
type Options struct {
	// Codex is the path of the codex program, whose catalogue is the list of models.
	Codex string
	// Model answers the requests for responses.
	Model http.Handler
	// HTTP refuses WebSockets with 426, so that Codex uses HTTP.
	HTTP bool
	// Dir is the directory for the folder with the certificate; empty: that for temporary files.
	Dir string
}

// Backend is the back end of a plan. It is safe for concurrent use.
type Backend struct {
	opts   Options
	dir    string // has the certificate
	proxy  *proxy
	http   *http.Server
	served chan struct{} // closed when serving has ended
	calls  recorder
	faults faults

	ctx context.Context // ends what waits
	end context.CancelFunc

	mu       sync.Mutex
	logins   []*Login
	devices  []*device
	stranger *Authority        // signs the certificates while it is set, see Intercept
	models   []json.RawMessage // nil: those of the program
	pictures pictures
}

// Listen starts a back end on a free port of the loopback interface. Close it.
func Listen(opts Options) (*Backend, error) {
	ca, err := theAuthority()
	if err != nil {
		return nil, fmt.Errorf("making an authority for certificates: %w", err)
	}
	dir, err := os.MkdirTemp(opts.Dir, "planbackend-")
	if err != nil {
		return nil, err
	}
	b := &Backend{opts: opts, dir: dir, served: make(chan struct{})}
	b.ctx, b.end = context.WithCancel(context.Background())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = os.WriteFile(b.certificate(), ca.PEM, 0o600)
	}
	if err != nil {
		b.end()
		return nil, errors.Join(fmt.Errorf("starting the back end: %w", err), os.RemoveAll(dir))
	}
	b.proxy = newProxy(listener, b.faults.down)
	b.http = &http.Server{
		Handler: b, ReadHeaderTimeout: headerTimeout,
		// Codex connects each turn. Go has this curve in assembly, where looking for races is free.
		TLSConfig:   &tls.Config{GetCertificate: b.certificateFor(ca), CurvePreferences: []tls.CurveID{tls.CurveP256}},
		ConnContext: withConn,
		ErrorLog:    log.New(io.Discard, "", 0), // clients that leave
	}
	go func() {
		defer close(b.served)
		_ = b.http.ServeTLS(b.proxy, "", "") // returns on Close
	}()
	return b, nil
}

// Intercept cuts all connections, and serves later ones with the certificates of an authority that
// Codex does not know, as a company's proxy does that reads what is sent, until heal is called.
func (b *Backend) Intercept() (heal func(), err error) {
	stranger, err := NewAuthority()
	if err != nil {
		return nil, err
	}
	set := func(a *Authority) {
		b.mu.Lock()
		b.stranger = a
		b.mu.Unlock()
		b.Cut()
	}
	set(stranger)
	return func() { set(nil) }, nil
}

func (b *Backend) certificateFor(ca *Authority) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		b.mu.Lock()
		stranger := b.stranger
		b.mu.Unlock()
		return cmp.Or(stranger, ca).ForHost(hello.ServerName)
	}
}

func (b *Backend) certificate() string { return filepath.Join(b.dir, "ca.pem") }

// Proxy returns the URL of the proxy.
func (b *Backend) Proxy() string { return "http://" + b.proxy.Addr().String() }

// Env returns the variables with which Codex reaches the back end, as NAME=VALUE.
func (b *Backend) Env() []string {
	return []string{"HTTPS_PROXY=" + b.Proxy(), "SSL_CERT_FILE=" + b.certificate()}
}

// Close cuts all connections and waits for the end of serving. The model is to be closed before.
func (b *Backend) Close() {
	b.end()
	_ = b.http.Close() // only fails for what is closed already
	<-b.served
	b.calls.close()
	_ = os.RemoveAll(b.dir)
}

// ServeHTTP implements [http.Handler]: what arrives in a tunnel.
func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(b.ctx, cancel)()
	r = r.WithContext(ctx)
	kind, answer := b.route(r)
	login := b.loginOf(r)
	done := b.calls.begin(r, kind, login)
	if done == nil {
		return // its connection is closed
	}
	defer done()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r, login) })
	b.faults.serve(w, r, kind, login, handler)
}

// answerer answers a call of a login, which is nil if the call has none.
type answerer func(w http.ResponseWriter, r *http.Request, login *Login)

// route returns the kind of a call, and what answers it.
func (b *Backend) route(r *http.Request) (Kind, answerer) {
	switch r.Host + " " + r.Method + " " + r.URL.Path {
	case chatgpt + " GET /backend-api/wham/accounts/check":
		return Accounts, needsLogin(b.accounts)
	case chatgpt + " GET /backend-api/codex/models":
		return Models, needsLogin(b.listModels)
	case chatgpt + " GET /backend-api/wham/settings/user":
		return Settings, needsLogin(b.settings)
	case chatgpt + " GET /backend-api/wham/usage":
		return Usage, needsLogin(b.usage)
	case chatgpt + " GET /backend-api/wham/rate-limit-reset-credits":
		return Credits, needsLogin(b.credits)
	case chatgpt + " POST /backend-api/wham/rate-limit-reset-credits/consume":
		return SpendCredit, needsLogin(b.spendCredit)
	case chatgpt + " POST /backend-api/codex/responses":
		return Responses, needsLogin(b.respond)
	case chatgpt + " GET /backend-api/codex/responses":
		return Socket, needsLogin(b.serveSocket)
	case chatgpt + " POST /backend-api/codex/images/generations", chatgpt + " POST /backend-api/codex/images/edits":
		return Pictures, needsLogin(b.picture)
	case auth + " POST /oauth/token":
		return Issuer, b.issue
	case auth + " POST /api/accounts/deviceauth/usercode":
		return DeviceCode, b.deviceCode
	case auth + " POST /api/accounts/deviceauth/token":
		return DeviceToken, b.deviceToken
	}
	return Other, func(w http.ResponseWriter, _ *http.Request, _ *Login) {
		writeJSON(w, http.StatusNotFound, object{"detail": "Not Found"})
	}
}

// object is a JSON object.
type object map[string]any

// writeJSON writes an answer. It ignores errors, which mean that the client left.
func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
