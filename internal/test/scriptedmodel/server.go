package scriptedmodel

import (
	"context"
	"encoding/json"
	"errors"
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
	// Chunk is the size of the deltas of scripts without one, in bytes. The
	// default is 16; ChunkAll means one delta for each text.
	Chunk int

	// Delay and FirstDelay are the pauses of scripts without them: before each
	// delta but the first, and before the first output.
	Delay, FirstDelay time.Duration

	// Models are the ids that GET /v1/models lists. The default is gpt-5. Requests
	// for other models are answered as well.
	Models []string

	// KeepRequests is the number of requests that are kept for Requests and
	// Warmups, up to 128 MiB together. The default is 256.
	KeepRequests int
}

// Server is the model server. It is an [http.Handler] and safe for concurrent
// use.
type Server struct {
	opts    Options
	log     *recorder
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
	if opts.Chunk == 0 {
		opts.Chunk = 16
	}
	if opts.KeepRequests <= 0 {
		opts.KeepRequests = 256
	}
	if len(opts.Models) == 0 {
		opts.Models = []string{"gpt-5"}
	}
	opts.Models = slices.Clone(opts.Models)
	s := &Server{opts: opts, log: newRecorder(opts.KeepRequests)}
	s.sockets.open = make(map[*socket]bool)
	s.ctx, s.close = context.WithCancel(context.Background())
	return s
}

// On registers f, which returns the script for a request, or false if it has none.
// The function registered last is called first. f is called for every request,
// including those to compact a history (see [Request.IsCompaction]), and
// concurrently. remove removes it.
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

// Close cuts all streams, including those that hang and those that come later. It
// returns when all WebSockets have ended.
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
			s.listModels(w)
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
	req, err := s.receive(arrival{header: r.Header.Clone(), body: body, Delivery: Delivery{Transport: HTTP, Bytes: len(body)}})
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
	script := s.script(req)
	if refusal, ok := script.End.(refuser); ok {
		refuse(w, refusal)
		return
	}
	for name, value := range script.Header {
		w.Header().Set(name, value)
	}
	to := sse.NewWriter(w, sse.WriterOptions{WriteTimeout: writeTimeout})
	defer to.Release()
	if _, err := s.play(r.Context(), to, req, script); err != nil {
		// Makes net/http break the connection.
		panic(http.ErrAbortHandler)
	}
}

// receive keeps a request and decodes it.
func (s *Server) receive(a arrival) (Request, error) {
	a.number = s.log.add(a)
	return a.decode()
}

func (s *Server) listModels(w http.ResponseWriter) {
	var data []object
	for _, id := range s.opts.Models {
		data = append(data, object{"id": id, "object": "model", "created": 0, "owned_by": "scriptedmodel"})
	}
	writeJSON(w, http.StatusOK, object{"object": "list", "data": data})
}

// writeJSON writes an answer. It ignores errors, which mean that the client left.
func writeJSON(w http.ResponseWriter, status int, body object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
