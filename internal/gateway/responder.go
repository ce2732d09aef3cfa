package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/sse"
)

const (
	// headerDelay is how long the header of a stream waits for the first output after the turns have
	// started. Meanwhile, a failure can still become an HTTP status.
	headerDelay = 2 * time.Second
	// WriteTimeout is how long a client may take to accept one write of an answer.
	WriteTimeout = 30 * time.Second
)

// responder writes the answer to a request: as events while the turns run, or as one body when they
// have ended. Two goroutines never call its methods at the same time.
type responder struct {
	g      *Gateway
	ex     *exchange
	answer api.Answer
	form   api.Form // of answer

	// These fields are about all choices whose turns have ended.
	tools       turn.Report // the sum of their reports, but only Calls and Truncated
	budgetSpent bool        // the limits of the key have cut one of the choices short

	events    events       // where the events go; nil: the answer is one body
	log       *objects.Log // where the events go, if it is a background response; otherwise nil
	claim     *answerClaim // of the outputs that the answer keeps until its end; nil: the answer keeps none
	opened    bool         // the answer has begun: Open of the encoder was called
	headerDue time.Time    // when the header of a stream is sent at the latest

	transferEncoding [1]string // the value of the Transfer-Encoding header
}

// events is where the events of an answer go: an [sse.Writer], a socketWriter, or logEvents. Its methods
// are those of sse.Writer.
type events interface {
	WriteEvent(event string, data []byte) error
	WriteComment(text string) error
	Flush() error
	Started() bool
	NextKeepalive() time.Duration
	Keepalive() (next time.Duration, err error)
	Close() error
}

// quiet is embedded in implementations of events that have neither comments nor keepalives.
type quiet struct{}

func (quiet) WriteComment(string) error         { return nil }
func (quiet) NextKeepalive() time.Duration      { return sse.Never }
func (quiet) Keepalive() (time.Duration, error) { return sse.Never, nil }

// newResponder returns the responder of a request. Events go to ex.events or, if that is nil, to ex.w.
func (g *Gateway) newResponder(ex *exchange, req *request) *responder {
	answer := req.answer
	if !req.plan.Stream {
		s := &responder{g: g, ex: ex, answer: answer, form: req.form, claim: g.newAnswerClaim(ex.user)}
		answer.Begin(nil)
		return s
	}
	s := new(struct { // both in one allocation
		responder
		writer sse.Writer
	})
	s.responder = responder{
		g: g, ex: ex, answer: answer, form: req.form, events: ex.events,
		headerDue: time.Now().Add(headerDelay), transferEncoding: [1]string{"chunked"},
	}
	if s.events == nil {
		g.resetWriter(&s.writer, ex.w, ex.r)
		s.events = &s.writer
	}
	if s.form.Ping != nil {
		s.writer.SetPing("ping", s.form.Ping)
	}
	if s.form.Line != nil {
		s.writer.SetLines(s.form.Line)
	}
	if s.form.Repeats {
		s.claim = g.newAnswerClaim(ex.user)
	}
	answer.Begin(s.events.WriteEvent)
	return &s.responder
}

func (g *Gateway) resetWriter(writer *sse.Writer, w http.ResponseWriter, r *http.Request) {
	if recorded, ok := w.(*recordedWriter); ok && g.opts.OwnDeadlines != nil {
		recorded.ResponseWriter = g.opts.OwnDeadlines(recorded.ResponseWriter, r)
	} else if g.opts.OwnDeadlines != nil {
		w = g.opts.OwnDeadlines(w, r)
	}
	writer.Reset(w, sse.WriterOptions{WriteTimeout: WriteTimeout, Keepalive: g.opts.Keepalive})
}

func (s *responder) count(c *choice) {
	report := c.machine.Report()
	s.tools.Calls += report.Calls
	s.tools.Truncated = s.tools.Truncated || report.Truncated
	if c.finish == turn.FinishLength && c.grant.LimitsTokens() && c.grant.Spent() {
		s.budgetSpent = true
	}
}

// write writes the next outputs of a choice, and flushes once. No output is a failure. If write
// returns an *apierror.Error, the request fails.
func (s *responder) write(choice int, outputs []turn.Output) error {
	pictures, err := s.claimPictures(outputs)
	defer pictures.release()
	if err != nil {
		return err
	}
	for i := range outputs {
		if err := s.claim.add(&outputs[i]); err != nil {
			return err
		}
		if err := s.open(choice); err != nil {
			return err
		}
		if err := s.answer.Write(choice, outputs[i]); err != nil {
			return err
		}
	}
	return s.flush()
}

// claimPictures claims memory for the pictures in outputs. The caller releases the claim when they are
// written, or after an error. Without pictures, or if s.claim counts all outputs, the claim is nil.
func (s *responder) claimPictures(outputs []turn.Output) (claim *answerClaim, err error) {
	if s.claim != nil {
		return nil, nil
	}
	for i := range outputs {
		if out := &outputs[i]; out.Kind == turn.OutputPicture && err == nil {
			if claim == nil {
				claim = s.g.newAnswerClaim(s.ex.user)
			}
			err = claim.add(out)
		}
	}
	return claim, err
}

// writeUnread is called with the last outputs of a choice after the client has gone. It encodes them if
// the answer is a stream that has begun and may be stored.
func (s *responder) writeUnread(choice int, outputs []turn.Output) {
	for i := range outputs {
		if !s.opened || s.claim == nil || s.claim.add(&outputs[i]) != nil {
			return
		}
		_ = s.answer.Write(choice, outputs[i]) // nobody reads the events
	}
}

// open writes the events before the first output, once, and sets the headers about limits, since a choice is
// about to write or to wait. An answer in one body has no such events.
func (s *responder) open(choice int) error {
	s.ex.keepRequest()
	if s.opened || s.events == nil {
		return nil
	}
	s.opened = true
	if all := s.ex.prealloc.running.choices; len(all) > choice && all[choice].turn != nil { // otherwise no turn was started
		s.ex.setLimitHeaders(all[choice])
	}
	return s.answer.Open()
}

// flush sends the events that are written. If the answer is complete, flush ends the stream instead.
func (s *responder) flush() error {
	if s.events == nil {
		return nil
	}
	if s.answer.Done() {
		return s.end()
	}
	err := s.events.Flush()
	s.answer.Idle() // only after the flush, so that the client need not wait until memory is released
	return err
}

// end writes the end of the stream, which the HTTP server sends when the handler returns. If a short
// answer was never flushed, the HTTP server would add a Content-Length, as if the answer were not
// streamed. Over HTTP/1, the header Transfer-Encoding prevents this; over HTTP/2 and HTTP/3, a flush.
func (s *responder) end() error {
	if s.budgetSpent {
		if err := s.events.WriteComment("the answer ends here: a limit of tokens of the API key is reached"); err != nil {
			return err
		}
	}
	if s.form.Counts && s.tools.Calls > 0 {
		if err := s.events.WriteComment(fmt.Sprintf("tool_calls=%d truncated=%t", s.tools.Calls, s.tools.Truncated)); err != nil {
			return err
		}
	}
	if s.form.EndMark != nil {
		if err := s.events.WriteEvent("", s.form.EndMark); err != nil {
			return err
		}
	}
	s.answer.Idle()
	if !s.events.Started() {
		if s.ex.r.ProtoMajor > 1 {
			return s.events.Flush()
		}
		s.ex.w.Header()["Transfer-Encoding"] = s.transferEncoding[:]
	}
	return s.events.Close()
}

// restart is called when a turn that had no output yet was started again. The header then waits for
// headerDelay from now on: if the turn fails again, the client can still get an HTTP status.
func (s *responder) restart() {
	if s.log == nil {
		s.headerDue = time.Now().Add(headerDelay)
	}
}

// nextWake returns the time until the header or a keepalive is due. For an answer in one body, it is Never.
func (s *responder) nextWake() time.Duration {
	switch {
	case s.events == nil:
		return sse.Never
	case !s.events.Started():
		return max(0, time.Until(s.headerDue))
	}
	return s.events.NextKeepalive()
}

// wake writes the header when the header is due. After the header, wake writes keepalives.
func (s *responder) wake(choice int) error {
	switch {
	case s.events == nil:
		return nil
	case s.events.Started():
		_, err := s.events.Keepalive()
		return err
	case time.Now().Before(s.headerDue):
		return nil
	}
	if err := s.open(choice); err != nil {
		return err
	}
	return s.events.Flush()
}

// finish ends the answer when the turns have ended. err is why the request failed (an *apierror.Error),
// why the client did not get the answer (any other error), or nil. A failure before the answer has begun
// becomes an HTTP status. But two kinds of answers always get a last event: the stream of a cancelled
// response, and the log of a background response.
func (s *responder) finish(err error) requestOutcome {
	if err != nil && s.log != nil {
		err = failures.APIError(err)
	}
	apiErr, failed := errors.AsType[*apierror.Error](err)
	mustEnd := s.log != nil || s.events != nil && apiErr == apierror.ErrCancelled
	switch {
	case failed && !s.opened && !mustEnd:
		return s.g.refuseOrPassOn(s.ex, apiErr)
	case s.events == nil && err != nil:
		return s.g.refuseUndelivered(s.ex.w, s.ex.r, err)
	case s.events == nil:
		return s.writeBody()
	case failed:
		if err = s.open(0); err == nil {
			err = s.answer.Fail(apiErr)
		}
		if err == nil {
			err = s.flush()
		}
	case err != nil && s.opened:
		_ = s.answer.Fail(apierror.ErrCancelled) // nobody reads this event, but the response may be stored
	}
	if err == nil {
		err = s.events.Close()
	}
	if err == nil || errors.Is(err, sse.ErrClosed) { // ErrClosed: flush has closed the stream already
		return requestOutcome{apiErr: apiErr, streamed: true}
	}
	if !s.events.Started() {
		return s.g.refuseUndelivered(s.ex.w, s.ex.r, err)
	}
	return undeliveredStream(err)
}

func (s *responder) writeBody() requestOutcome {
	body, apiErr := keepAnswer(s.claim.claim, s.answer.JSON())
	if apiErr != nil {
		return s.g.refuse(s.ex.w, s.ex.r, apiErr)
	}
	header := s.ex.w.Header()
	header.Set(countHeader, strconv.Itoa(s.tools.Calls))
	header.Set(truncatedHeader, strconv.FormatBool(s.tools.Truncated))
	if err := writeJSON(s.ex.w, http.StatusOK, body); err != nil {
		return requestOutcome{apiErr: apierror.ClientGone(), deliveryErr: err}
	}
	return requestOutcome{}
}

// close releases the memory of the answer. For a background response, close does nothing: the memory is
// released later, see [Gateway.detach].
func (s *responder) close() {
	if s.log != nil {
		return
	}
	s.claim.release()
	if s.events != nil {
		_ = s.events.Close() // the error is ignored: the answer has ended, or was abandoned
	}
}
