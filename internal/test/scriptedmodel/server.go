package scriptedmodel

import (
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/sse"
)

const (
	// maxBody bounds a request body, in bytes.
	maxBody = 64 << 20

	// maxStream bounds the duration of a stream, including one that hangs.
	maxStream = 15 * time.Minute
)

// Options are the options of a [Server]. The zero value has the defaults.
type Options struct {
	// Delay is the pause before each delta but the first, of scripts without one.
	Delay time.Duration
	// Answer answers a question without directives, which may follow settings. Nil: it is quoted.
	Answer func(req Request, question string) Script
	// AnswersInvalid makes a prompt with invalid directives a question, instead of refusing it.
	AnswersInvalid bool
}

// Server is the model server. It is an [http.Handler] and safe for concurrent use.
type Server struct {
	opts    Options
	log     *recorder
	counter counter
	sockets socketSet

	mu      sync.Mutex
	writers []*scriptFunc // newest last

	ctx   context.Context // ends all streams
	close context.CancelFunc
}

// scriptFunc is a registered function, identified by its address.
type scriptFunc struct {
	script func(Request) (Script, bool)
}

// New returns a Server. Close it to end its streams.
func New(opts Options) *Server {
	if opts.Answer == nil {
		opts.Answer = echo
	}
	s := &Server{opts: opts, log: &recorder{limit: keptRequests, changed: make(chan struct{})}}
	s.counter.seed = maphash.MakeSeed()
	s.ctx, s.close = context.WithCancel(context.Background())
	return s
}

// On registers f, which returns a request's script, or false, until remove is called. The last f is
// called first, concurrently, for all requests, also for compactions ([Request.IsCompaction]).
func (s *Server) On(f func(Request) (Script, bool)) (remove func()) {
	added := &scriptFunc{f}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writers = append(s.writers, added)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.writers = slices.DeleteFunc(s.writers, func(w *scriptFunc) bool { return w == added })
	}
}

// Close cuts all streams, also hanging and later ones, and waits for the end of all WebSockets.
func (s *Server) Close() {
	s.close()
	s.sockets.wait()
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/responses":
		if r.Method == http.MethodGet && r.Header.Get("Upgrade") != "" {
			s.serveSocket(w, r)
		} else if allowed(w, r, http.MethodPost) {
			s.createResponse(w, r)
		}
	case "/v1/models":
		if allowed(w, r, http.MethodGet) {
			writeJSON(w, http.StatusOK, object{"object": "list", "data": []object{{"id": "gpt-5", "object": "model", "created": 0, "owned_by": "scriptedmodel"}}})
		}
	default:
		refuse(w, HTTPError{Status: http.StatusNotFound, Code: "not_found", Message: "There is no " + r.URL.Path + "."})
	}
}

func allowed(w http.ResponseWriter, r *http.Request, method string) bool {
	if r.Method == method {
		return true
	}
	w.Header().Set("Allow", method)
	refuse(w, HTTPError{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: "Use " + method + "."})
	return false
}

func refuse(w http.ResponseWriter, e refuser) { e.refuse(time.Now()).write(w) }

// createResponse answers a request over HTTP.
func (s *Server) createResponse(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refusal := badRequest("The body could not be read: " + err.Error())
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			refusal.Status = http.StatusRequestEntityTooLarge
		}
		refuse(w, refusal)
		return
	}
	req, err := s.receive(r.Header.Clone(), body, Delivery{Transport: HTTP, Bytes: len(body)}, planOf(r.Context()))
	switch {
	case err != nil:
		refuse(w, badRequest(err.Error()))
		return
	case !req.Stream:
		refuse(w, badRequest("This server answers with streams only: set stream to true."))
		return
	case req.PreviousResponseID != "":
		refuse(w, notFound(req.PreviousResponseID))
		return
	}
	if spent := req.plan.Refuse(req.Model); spent != nil {
		refuse(w, spent)
		return
	}
	script := s.script(req)
	if refusal, ok := script.End.(refuser); ok {
		refuse(w, refusal)
		return
	}
	for name, value := range req.plan.Header(req.Model) {
		w.Header().Set(name, value)
	}
	for name, value := range script.Header {
		w.Header().Set(name, value)
	}
	to := sse.NewWriter(w, sse.WriterOptions{WriteTimeout: writeTimeout})
	defer func() { _ = to.Close() }()
	if _, err := s.play(r.Context(), to, req, script); err != nil {
		// Makes net/http break the connection.
		panic(http.ErrAbortHandler)
	}
}

// receive decodes a request and keeps it, also one that cannot be decoded.
func (s *Server) receive(header http.Header, body []byte, how Delivery, plan Plan) (Request, error) {
	req, err := decode(header, body, how)
	req.plan = plan
	if err == nil {
		s.counter.count(&req)
	}
	s.log.add(&req)
	return req, err
}

// writeJSON writes an answer. It ignores errors, which mean that the client left.
func writeJSON(w http.ResponseWriter, status int, body object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
