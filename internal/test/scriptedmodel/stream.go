package scriptedmodel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// writeTimeout is how long a client may take to read a write.
const writeTimeout = 30 * time.Second

// errCut is the error of a script that breaks the connection.
var errCut = errors.New("the script cuts the connection")

// eventWriter sends the events of a response.
type eventWriter interface {
	WriteEvent(typ string, data []byte) error
	Flush() error
	Close() error
}

// play answers req with the events of the script and returns the final response.
// The error is errCut if the connection is to be broken.
func (s *Server) play(ctx context.Context, to eventWriter, req Request, script Script) (*response, error) {
	ctx, cancel := context.WithTimeout(ctx, maxStream)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if s.ctx.Err() != nil {
		cancel() // AfterFunc would cancel a little later
	}

	s.log.update(func(stats *Stats) { stats.Open++ })
	p := newPlayer(ctx, to, req, script)
	err := p.play()
	s.log.update(func(stats *Stats) {
		stats.Open--
		switch {
		case err == nil || errors.Is(err, errCut):
			stats.Finished++
		case s.ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded):
			stats.ClosedEarly++
		}
	})
	return p.response, err
}

// player sends the events of one script.
type player struct {
	ctx      context.Context
	w        eventWriter
	script   Script
	response *response
	number   int      // Request.Number
	include  []string // Request.Include
	sequence int      // sequence number of the next event
	calls    int      // number of calls sent
	deltas   int      // number of deltas sent
}

func newPlayer(ctx context.Context, to eventWriter, req Request, script Script) *player {
	return &player{
		ctx:      ctx,
		w:        to,
		script:   script,
		response: newResponse(fmt.Sprintf("resp_%d", req.Number), time.Now().Unix(), req),
		number:   req.Number,
		include:  req.Include,
	}
}

// play sends the response. It returns errCut if the connection is to be broken.
func (p *player) play() error {
	if err := p.w.Flush(); err != nil {
		return err
	}
	if _, hang := p.script.End.(Hang); hang && len(p.script.Output) == 0 {
		return p.hang()
	}
	for _, typ := range []string{"response.created", "response.in_progress"} {
		if err := p.emit(event{Type: typ, Response: p.response}); err != nil {
			return err
		}
	}
	if err := p.w.Flush(); err != nil {
		return err
	}
	if err := p.pause(p.script.FirstDelay); err != nil {
		return err
	}
	for i, out := range p.script.Output {
		if err := p.output(out, i == len(p.script.Output)-1); err != nil {
			return err
		}
		if err := p.w.Flush(); err != nil {
			return err
		}
	}
	return p.end()
}

// output sends one output item.
func (p *player) output(out Output, last bool) error {
	it := &itemWriter{player: p, index: len(p.response.Output), status: "completed"}
	if last {
		it.open = breaksOff(p.script.End)
		if _, ok := p.script.End.(Incomplete); ok {
			it.status = "incomplete"
		}
	}
	switch out := out.(type) {
	case Say:
		return it.message(string(out), []any{})
	case Cite:
		return it.message(out.Text, []any{citation{"url_citation", out.URL, out.Title, 0, len([]rune(out.Text))}})
	case Search:
		return it.search(string(out))
	case Reason:
		return it.reasoning(strings.Split(string(out), "\n\n"))
	case Call:
		p.calls++
		return it.call(out)
	}
	return fmt.Errorf("unknown output %T", out)
}

// end sends the last event, if the script has one.
func (p *player) end() error {
	r := p.response
	switch e := p.script.End.(type) {
	case Cut:
		return errCut
	case Hang:
		return p.hang()
	case Failed:
		r.Status = "failed"
		r.Error = &responseError{Code: e.Code, Message: e.Message}
	case Incomplete:
		r.Status = "incomplete"
		r.IncompleteDetails = &incompleteReason{e.Reason}
		r.Usage = p.usage()
	default:
		r.Status = "completed"
		r.Usage = p.usage()
	}
	if err := p.emit(event{Type: "response." + r.Status, Response: r}); err != nil {
		return err
	}
	return p.w.Close()
}

func (p *player) usage() *wireUsage {
	if p.script.Usage != nil {
		return p.script.Usage.wire()
	}
	return DefaultUsage.wire()
}

// emit writes the event with the next sequence number.
func (p *player) emit(e event) error {
	e.SequenceNumber = p.sequence
	p.sequence++
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode %s: %w", e.Type, err)
	}
	return p.w.WriteEvent(e.Type, data)
}

// pace waits before a delta.
func (p *player) pace() error {
	p.deltas++
	if p.deltas == 1 || p.script.Delay <= 0 {
		return p.ctx.Err()
	}
	if err := p.w.Flush(); err != nil {
		return err
	}
	return p.pause(p.script.Delay)
}

// pause waits for d, or until the client has left.
func (p *player) pause(d time.Duration) error {
	if d <= 0 {
		return p.ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

// hang waits until the client has left.
func (p *player) hang() error {
	<-p.ctx.Done()
	return p.ctx.Err()
}
