package gateway

import (
	"fmt"
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

// stream answers with server-sent events while the turn runs.
func (g *Gateway) stream(w http.ResponseWriter, r *http.Request, c *chat, machine *turn.Machine) Record {
	s := newChatEvents(w, c.meta, g.opts.Keepalive, machine)
	err := turn.Drive(r.Context(), c.thread, machine, s, g.opts.IdleTimeout)
	if err == nil && s.refusal == nil {
		err = s.writer.Close()
	}
	switch {
	case s.refusal != nil:
		g.refuse(w, r, s.refusal)
	case err != nil:
		g.lost(r, err)
	}
	return s.record(err)
}

// chatEvents lets a stream of chat chunks consume a turn.
type chatEvents struct {
	outcome
	machine *turn.Machine
	writer  *sse.Writer
	encoder *openai.ChatStream
	header  time.Time     // when the header goes out at the latest
	refusal *openai.Error // the turn failed before anything was written
	written bool
}

func newChatEvents(w http.ResponseWriter, meta openai.Meta, keepalive time.Duration, machine *turn.Machine) *chatEvents {
	writer := sse.NewWriter(w, sse.WriterOptions{WriteTimeout: writeTimeout, Keepalive: keepalive})
	return &chatEvents{
		machine: machine,
		writer:  writer,
		encoder: openai.NewChatStream(meta, writer.WriteData),
		header:  time.Now().Add(headerDelay),
	}
}

// Consume writes the chunks of all outputs and flushes once.
func (s *chatEvents) Consume(outputs []turn.Output) error {
	s.see(outputs)
	for _, o := range outputs {
		if o.Kind == turn.OutputFailure && !s.written && !s.writer.Started() {
			s.refusal = openai.FromFailure(o.Err)
			return nil
		}
		if err := s.encoder.Write(o); err != nil {
			return err
		}
		s.written = true
	}
	if s.encoder.Done() {
		if err := s.end(); err != nil {
			return err
		}
	}
	return s.writer.Flush()
}

// end writes the counts of the turn's calls, as a comment that clients skip,
// and the end mark.
func (s *chatEvents) end() error {
	report := s.machine.Report()
	if report.Calls > 0 {
		counts := fmt.Sprintf("tool_calls=%d truncated=%t", report.Calls, report.Truncated)
		if err := s.writer.WriteComment(counts); err != nil {
			return err
		}
	}
	return s.writer.WriteDone()
}

// NextWake is when the header or the next keepalive is due.
func (s *chatEvents) NextWake() time.Duration {
	if !s.writer.Started() {
		return max(0, time.Until(s.header))
	}
	return s.writer.NextKeepalive()
}

// Wake writes the header once it cannot wait any longer, then keepalives.
func (s *chatEvents) Wake() error {
	if s.writer.Started() {
		_, err := s.writer.Keepalive()
		return err
	}
	if time.Now().Before(s.header) {
		return nil
	}
	return s.writer.Start()
}
