package gateway

import (
	"errors"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/sse"
)

const (
	// headerDelay is how long a stream's header waits for the first output of a turn that was
	// started, so that an immediate failure can still be an HTTP status.
	headerDelay = 2 * time.Second
	// WriteTimeout is how long a client may take to accept one write of an answer.
	WriteTimeout = 30 * time.Second
)

// streamResponder writes an answer as server-sent events while the turns run.
type streamResponder struct {
	g       *Gateway
	w       http.ResponseWriter
	r       *http.Request
	user    string
	tally   *tally // of the choices
	writer  sse.Writer
	encoder streamEncoder
	eventWriter
	headerDue        time.Time // when the header is sent at the latest
	transferEncoding [1]string // the value of the Transfer-Encoding header
}

// resetWriter resets an SSE writer, so that it writes events to w.
func (g *Gateway) resetWriter(writer *sse.Writer, w http.ResponseWriter, r *http.Request) {
	if g.opts.OwnDeadlines != nil {
		w = g.opts.OwnDeadlines(w, r)
	}
	writer.Reset(w, sse.WriterOptions{WriteTimeout: WriteTimeout, Keepalive: g.opts.Keepalive})
}

// newStreamResponder returns a responder for a streamed answer. place is where the first turn runs.
func (g *Gateway) newStreamResponder(ex *exchange, a answer, place *conversation.Place, tally *tally) *streamResponder {
	s := &streamResponder{g: g, w: ex.w, r: ex.r, user: ex.user, tally: tally, headerDue: time.Now().Add(headerDelay), transferEncoding: [1]string{"chunked"}}
	g.resetWriter(&s.writer, ex.w, ex.r)
	s.encoder = a.stream(&s.writer, place)
	s.target = s.encoder
	if s.encoder.KeepsOutputs() {
		s.claim = g.newAnswerClaim(ex.user)
	}
	return s
}

// write writes the events of all outputs and flushes once.
func (s *streamResponder) write(choice int, outputs []turn.Output) error {
	pictures, err := s.claimPictures(outputs)
	defer pictures.release()
	if err != nil {
		return err
	}
	if err := s.eventWriter.write(choice, outputs); err != nil {
		return err
	}
	return s.flush()
}

// claimPictures claims memory for the pictures in outputs. It returns the claim even if it fails.
// The caller releases the claim when the outputs are written. The claim is nil if there are no
// pictures, or if s.claim already counts the whole answer.
func (s *streamResponder) claimPictures(outputs []turn.Output) (claim *answerClaim, err error) {
	if s.claim != nil {
		return nil, nil
	}
	for i := range outputs {
		if out := &outputs[i]; out.Kind == turn.OutputPicture && err == nil {
			if claim == nil {
				claim = s.g.newAnswerClaim(s.user)
			}
			err = claim.add(out)
		}
	}
	return claim, err
}

// writeUnread encodes the last outputs for an answer that may be stored. It does nothing if the
// encoder does not keep all outputs.
func (s *streamResponder) writeUnread(choice int, outputs []turn.Output) {
	if s.encoder.KeepsOutputs() {
		s.eventWriter.writeUnread(choice, outputs)
	}
}

// close releases the memory of the answer.
func (s *streamResponder) close() {
	s.eventWriter.close()
	_ = s.writer.Close() // an abandoned stream has nothing more to send
}

// flush sends what is written. If the encoder is done, flush ends the stream instead.
func (s *streamResponder) flush() error {
	if s.encoder.Done() {
		return s.end()
	}
	err := s.writer.Flush()
	s.encoder.Idle() // only after the flush, so that the client does not wait for it
	return err
}

// end writes the end of the stream. Usually it does not flush: the server sends the rest when the
// handler returns. But if a short answer was never flushed, the server would add a Content-Length,
// as if the answer were not streamed. Over HTTP/1, the header Transfer-Encoding prevents this. Over
// HTTP/2 and HTTP/3, end flushes.
func (s *streamResponder) end() error {
	if s.tally.budgetSpent {
		if err := s.writer.WriteComment("the answer ends here: a limit of tokens of the API key is reached"); err != nil {
			return err
		}
	}
	if err := s.encoder.Close(s.tally.tools); err != nil {
		return err
	}
	s.encoder.Idle()
	if !s.writer.Started() {
		if s.r.ProtoMajor > 1 {
			return s.writer.Flush()
		}
		s.w.Header()["Transfer-Encoding"] = s.transferEncoding[:]
	}
	return s.writer.Close()
}

// restart delays the header by headerDelay again. If the turn fails again immediately, the client
// can still get an HTTP status.
func (s *streamResponder) restart() { s.headerDue = time.Now().Add(headerDelay) }

// nextWake returns the time until the header or the next keepalive is due.
func (s *streamResponder) nextWake() time.Duration {
	if !s.writer.Started() {
		return max(0, time.Until(s.headerDue))
	}
	return s.writer.NextKeepalive()
}

// wake writes the header when the header is due. After the header, wake writes keepalives.
func (s *streamResponder) wake() error {
	if s.writer.Started() {
		_, err := s.writer.Keepalive()
		return err
	}
	if time.Now().Before(s.headerDue) {
		return nil
	}
	if err := s.open(); err != nil {
		return err
	}
	return s.writer.Flush()
}

// finish ends the stream. A failure before the stream has begun becomes an HTTP status. A cancelled
// response is an exception: its stream always gets a last event.
func (s *streamResponder) finish(err error) requestOutcome {
	apiErr, failed := errors.AsType[*apierror.Error](err)
	switch {
	case failed && !s.opened && apiErr != apierror.ErrCancelled:
		return s.g.refuse(s.w, s.r, apiErr)
	case failed:
		err = s.fail(apiErr)
	case err != nil && s.opened:
		_ = s.encoder.Fail(apierror.ErrCancelled) // nobody reads this event, but the response may be stored
	}
	if err == nil {
		err = s.writer.Close()
	}
	if err == nil || errors.Is(err, sse.ErrClosed) { // ErrClosed: flush has ended the stream already
		return requestOutcome{apiErr: apiErr, streamed: true}
	}
	if !s.writer.Started() {
		return s.g.refuseUndelivered(s.w, s.r, err)
	}
	return undeliveredStream(err)
}

// fail ends the stream with an error.
func (s *streamResponder) fail(apiErr *apierror.Error) error {
	if err := s.open(); err != nil {
		return err
	}
	if err := s.encoder.Fail(apiErr); err != nil {
		return err
	}
	return s.flush()
}

// eventWriter encodes the outputs of turns as events. It claims memory for what the last event will
// repeat.
type eventWriter struct {
	target interface {
		Open() error
		Write(choice int, out turn.Output) error
	}
	claim  *answerClaim
	opened bool // Open of the target was called
}

// write encodes the next outputs of a choice.
func (e *eventWriter) write(choice int, outputs []turn.Output) error {
	for i := range outputs {
		if err := e.claim.add(&outputs[i]); err != nil {
			return err
		}
		if err := e.open(); err != nil {
			return err
		}
		if err := e.target.Write(choice, outputs[i]); err != nil {
			return err
		}
	}
	return nil
}

// writeUnread encodes the last outputs of a choice whose client has gone, if the answer has begun.
func (e *eventWriter) writeUnread(choice int, outputs []turn.Output) {
	for i := range outputs {
		if !e.opened || e.claim.add(&outputs[i]) != nil {
			return
		}
		_ = e.target.Write(choice, outputs[i]) // nobody reads the events
	}
}

// open calls Open of the target, if it was not called before.
func (e *eventWriter) open() error {
	if e.opened {
		return nil
	}
	e.opened = true
	return e.target.Open()
}

// close releases the claim.
func (e *eventWriter) close() { e.claim.release() }
