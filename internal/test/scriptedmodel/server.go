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
	// maxBody is the largest request body that is read, in bytes.
	maxBody = 64 << 20

	// maxStream is the longest time that a stream may last, hanging or not.
	maxStream = 15 * time.Minute
)

// Options are the options of a [Server]. The zero Options will do.
type Options struct {
	// Chunk is the size of the deltas of scripts that do not say, in bytes.
	// Default: 16. ChunkAll: one delta for each text.
	Chunk int

	// Delay and FirstDelay are the pauses of scripts that do not say: before each
	// delta but the first, and before the first output. Default: none.
	Delay, FirstDelay time.Duration

	// Models are the ids that GET /v1/models lists. Requests for other models
	// are answered as well. Default: gpt-5.
	Models []string

	// KeepRequests is the number of requests that are kept for Requests and
	// Warmups. Default: 256. Together they never have more than 128 MiB.
	KeepRequests int
}

// Server is the model server. It is an [http.Handler] and safe for concurrent
// use.
type Server struct {
	opts    Options
	log     *recorder
	sockets socketSet

	mu      sync.Mutex
	writers []*scriptFunc // the newest last

	ctx   context.Context // of all streams
	close context.CancelFunc
}

// scriptFunc is a registered function; its address tells it from others.
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
	s.sockets.open = make(map[*socket]struct{})
	s.ctx, s.close = context.WithCancel(context.Background())
	return s
}

// On lets f choose the script of requests, before anything else is asked; f
// returns false for those it has no script for. The function registered last is
// asked first. f is called for every request, also for those by which Codex
// compacts a history (see [Request.IsCompaction]), from many goroutines. Remove
// takes f away again.
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

// Close cuts all streams, those that hang included, and the ones still to come.
// It returns when all WebSockets have ended.
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
	to := sse.NewWriter(w, sse.WriterOptions{WriteTimeout: writeTimeout})
	if _, err := s.play(r.Context(), to, req, script); err != nil {
		// The one way to end a response so that the client sees it broken.
		panic(http.ErrAbortHandler)
	}
}

// receive keeps a request and decodes it.
func (s *Server) receive(a arrival) (Request, error) {
	a.number = s.log.add(a)
	return a.decode()
}

// model is an entry of the list of models.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func (s *Server) listModels(w http.ResponseWriter) {
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{Object: "list"}
	for _, id := range s.opts.Models {
		list.Data = append(list.Data, model{ID: id, Object: "model", OwnedBy: "scriptedmodel"})
	}
	writeJSON(w, http.StatusOK, list)
}

// writeJSON writes a whole answer. A client that has gone is nobody's concern.
func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
