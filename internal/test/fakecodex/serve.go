package fakecodex

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// maxLine bounds a message of the client, in bytes.
const maxLine = 128 << 20

type server struct {
	opts Options
	ctx  context.Context // ends all turns
	die  context.CancelCauseFunc

	players sync.WaitGroup
	writing chan struct{} // has an element while a line is written
	w       io.Writer
	sent    int // number of messages; guarded by writing

	mu          sync.Mutex
	initialized bool
	refusals    int // number of calls still to refuse as overloaded
	lastID      int // last id of a thread or turn
	nextRequest int // id of the server's next request
	threads     map[string]*thread
	requests    map[int]*request // of the server, by their ids, until they are answered
}

type request struct {
	answered chan struct{} // closed at its answer
	result   gjson.Result  // of the answer
}

type thread struct {
	id      string
	start   string  // parameters of thread/start
	history string  // historyKey of the injected items, and of generated turns
	thought string  // encrypted reasoning in it, each with a separator behind it
	steered string  // inputKey of messages for the turn that waits for results
	player  *player // the running turn; nil if there is none
}

// Serve plays an app-server from r to w, until r ends (nil), ctx ends (its cause), or a fault does
// ([ErrDied]). Its turns have ended then. A goroutine that reads from r ends with r.
func Serve(ctx context.Context, r io.Reader, w io.Writer, opts Options) error {
	if opts.Transcripts == nil {
		return errors.New("there are no recordings to play")
	}
	ctx, die := context.WithCancelCause(ctx)
	s := &server{
		opts: opts, ctx: ctx, die: die, w: w,
		writing:  make(chan struct{}, 1),
		refusals: opts.Faults.Overload,
		threads:  make(map[string]*thread),
		requests: make(map[int]*request),
	}
	lines := make(chan []byte)
	ended := make(chan error, 1)
	go func() { ended <- scan(ctx, r, lines) }()
	defer s.players.Wait()
	defer die(nil)
	for {
		select {
		case line := <-lines:
			if opts.Heard != nil {
				opts.Heard(line)
			}
			s.dispatch(line)
		case err := <-ended:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// scan sends the lines of r until r or ctx ends.
func scan(ctx context.Context, r io.Reader, lines chan<- []byte) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		select {
		case lines <- bytes.Clone(scanner.Bytes()):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return scanner.Err()
}

// dispatch handles one message of the client.
func (s *server) dispatch(line []byte) {
	m := gjson.ParseBytes(line)
	method, id := m.Get("method").Str, m.Get("id")
	if method != "" && method == s.opts.Faults.DieAt {
		s.die(ErrDied)
		return
	}
	switch {
	case method == "" && id.Exists():
		s.answered(int(id.Int()), m.Get("result"))
	case method != "" && id.Exists():
		s.call(method, id.Raw, m.Get("params"))
	}
}

// answered records the client's answer to a request of the server.
func (s *server) answered(id int, result gjson.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if waiting := s.requests[id]; waiting != nil {
		waiting.result = result
		close(waiting.answered)
		delete(s.requests, id)
	}
}

// request returns a new request of the server with its id.
func (s *server) request() (id int, made *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id = s.nextRequest
	s.nextRequest++
	made = &request{answered: make(chan struct{})}
	s.requests[id] = made
	return id, made
}

// send writes one line, unless the server has ended.
func (s *server) send(line string) {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	if s.ctx.Err() != nil {
		return
	}
	if s.opts.Told != nil {
		s.opts.Told(line)
	}
	if _, err := io.WriteString(s.w, line+"\n"); err != nil {
		s.die(fmt.Errorf("writing to the client: %w", err))
		return
	}
	if s.sent++; s.sent == s.opts.Faults.DieAfter {
		s.die(ErrDied)
	}
}

func (s *server) answer(id, result string) { s.send(`{"id":` + id + `,"result":` + result + `}`) }

func (s *server) refuse(id string, code int, format string, args ...any) {
	s.send(fmt.Sprintf(`{"id":%s,"error":{"code":%d,"message":%s}}`, id, code, wirejson.Quote(fmt.Sprintf(format, args...))))
}
