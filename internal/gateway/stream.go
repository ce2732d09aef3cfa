package gateway

import (
	"errors"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/sse"
)

const (
	// headerDelay is how long a stream's header waits for the first output, so
	// that an immediate failure can still be an HTTP status.
	headerDelay = time.Second
	// writeTimeout is how long a client may take to accept what is written.
	writeTimeout = 30 * time.Second
)

// stream answers with server-sent events while the turns run.
func (g *Gateway) stream(w http.ResponseWriter, r *http.Request, req *request, choices []*choice) ending {
	s := newEvents(w, req.wire, g.opts.Keepalive, choices)
	if s.encoder.Holds() {
		s.held = g.hold()
		defer s.held.release()
	}
	err := g.run(r.Context(), req, choices, s)
	switch {
	case errors.Is(err, openai.ErrCancelled):
		s.err, err = err, s.cancel()
	case err != nil && s.opened:
		_ = s.encoder.Cancel() // nobody reads that, but what there is can be kept
	}
	if err == nil && s.refusal == nil {
		err = s.writer.Close()
	}
	switch {
	case s.refusal != nil:
		g.refuse(w, r, s.refusal)
	case err != nil:
		g.lost(r, err)
		if !s.writer.Started() {
			g.refuse(w, r, openai.ClientGone())
		}
	case s.err != nil:
		g.logFailure(r, "request failed within its stream", openai.FromFailure(s.err))
	}
	return ending{failure: s.err, lost: err, cut: err != nil && s.writer.Started()}
}

// events is an answer as a stream.
type events struct {
	choices []*choice
	wire    wire
	writer  *sse.Writer
	encoder eventEncoder
	held    *held
	header  time.Time     // when the header goes out at the latest
	opened  bool          // the encoder has begun
	err     error         // why the request failed
	refusal *openai.Error // the same, if nothing was written before
}

func newEvents(w http.ResponseWriter, form wire, keepalive time.Duration, choices []*choice) *events {
	writer := sse.NewWriter(w, sse.WriterOptions{WriteTimeout: writeTimeout, Keepalive: keepalive})
	return &events{
		choices: choices,
		wire:    form,
		writer:  writer,
		encoder: form.Stream(writer),
		header:  time.Now().Add(headerDelay),
	}
}

// take writes the events of all outputs and flushes once.
func (s *events) take(choice int, outputs []turn.Output) error {
	for _, o := range outputs {
		o = s.held.add(o)
		if o.Kind == turn.OutputFailure {
			s.err = o.Err
			if !s.opened {
				s.refusal = s.wire.Refusal(o.Err)
				return nil
			}
		}
		if err := s.open(); err != nil {
			return err
		}
		if err := s.encoder.Write(choice, o); err != nil {
			return err
		}
	}
	return s.flush()
}

// flush lets go out what is written, with the end of the stream if it is due.
func (s *events) flush() error {
	if s.encoder.Done() {
		if err := s.encoder.Close(toolsOf(s.choices)); err != nil {
			return err
		}
	}
	return s.writer.Flush()
}

// cancel ends a stream whose turn somebody has cancelled.
func (s *events) cancel() error {
	if err := s.open(); err != nil {
		return err
	}
	if err := s.encoder.Cancel(); err != nil {
		return err
	}
	return s.flush()
}

func (s *events) failure() error { return s.err }

// open begins the stream.
func (s *events) open() error {
	if s.opened {
		return nil
	}
	s.opened = true
	return s.encoder.Open()
}

// nextWake is when the header or the next keepalive is due.
func (s *events) nextWake() time.Duration {
	if !s.writer.Started() {
		return max(0, time.Until(s.header))
	}
	return s.writer.NextKeepalive()
}

// wake writes the header once it cannot wait any longer, then keepalives.
func (s *events) wake() error {
	if s.writer.Started() {
		_, err := s.writer.Keepalive()
		return err
	}
	if time.Now().Before(s.header) {
		return nil
	}
	if err := s.open(); err != nil {
		return err
	}
	return s.writer.Flush()
}
