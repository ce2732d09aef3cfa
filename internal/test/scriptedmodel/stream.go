package scriptedmodel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
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

// play answers req with the script's events. errCut means that the connection is to be broken.
func (s *Server) play(ctx context.Context, to eventWriter, req Request, script Script) (*player, error) {
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
	return p, err
}

// player sends the events of one script.
type player struct {
	ctx      context.Context
	w        eventWriter
	script   Script
	response object
	items    []any // of the response
	number   int   // Request.Number
	plan     Plan
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
		response: newResponse(req),
		number:   req.Number,
		plan:     req.plan,
		include:  req.Include,
	}
}

// newResponse returns the response object of the first events for req.
func newResponse(req Request) object {
	tools := make([]json.RawMessage, len(req.Tools))
	for i, t := range req.Tools {
		tools[i] = t.Raw
	}
	r := object{
		"id": fmt.Sprintf("resp_%d", req.Number), "object": "response", "created_at": time.Now().Unix(), "status": "in_progress",
		"error": nil, "incomplete_details": nil, "instructions": nil, "model": req.Model, "tools": tools, "output": []any{},
		"parallel_tool_calls": req.ParallelToolCalls == nil || *req.ParallelToolCalls, "metadata": object{},
		"tool_choice": "auto", "temperature": 1, "top_p": 1, "usage": nil,
	}
	if req.Instructions != "" {
		r["instructions"] = req.Instructions
	}
	if len(req.ToolChoice) > 0 {
		r["tool_choice"] = req.ToolChoice
	}
	return r
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
		if err := p.emit(typ, object{"response": p.response}); err != nil {
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
	it := &itemWriter{player: p, index: len(p.items), status: "completed"}
	if last {
		it.open = breaksOff(p.script.End)
		if _, ok := p.script.End.(Incomplete); ok {
			it.status = "incomplete"
		}
	}
	switch out := out.(type) {
	case Hold:
		return p.await(out)
	case Say:
		it.message(string(out), []any{})
	case Cite:
		it.message(out.Text, []any{citation{"url_citation", out.URL, out.Title, 0, utf8.RuneCountInString(out.Text)}})
	case Search:
		it.search(string(out))
	case Reason:
		it.reasoning(strings.Split(string(out), "\n\n"))
	case Call:
		p.calls++
		it.call(out)
	}
	return it.err
}

// end sends the last event, if the script has one.
func (p *player) end() error {
	r, status := p.response, "completed"
	switch e := p.script.End.(type) {
	case Cut:
		return errCut
	case Hang:
		return p.hang()
	case Failed:
		status = "failed"
		r["error"] = object{"code": e.Code, "message": e.Message}
	case Incomplete:
		status = "incomplete"
		r["incomplete_details"] = object{"reason": e.Reason}
	}
	if status != "failed" {
		u := cmp.Or(p.script.Usage, &DefaultUsage)
		p.plan.Count(p.response["model"].(string), *u)
		r["usage"] = object{
			"input_tokens":          u.Input,
			"input_tokens_details":  object{"cached_tokens": u.Cached, "cache_write_tokens": u.CacheWrite},
			"output_tokens":         u.Output,
			"output_tokens_details": object{"reasoning_tokens": u.Reasoning},
			"total_tokens":          u.Input + u.Output,
		}
	}
	if p.script.Price != "" {
		r["usage_metadata"] = object{"amount": p.script.Price}
	}
	r["status"], r["output"] = status, append([]any{}, p.items...)
	if err := p.emit("response."+status, object{"response": r}); err != nil {
		return err
	}
	return p.w.Close()
}

// emit writes the event with the next sequence number.
func (p *player) emit(typ string, members object) error {
	data, err := json.Marshal(members.with(object{"type": typ, "sequence_number": p.sequence}))
	if err != nil {
		return fmt.Errorf("encode %s: %w", typ, err)
	}
	p.sequence++
	return p.w.WriteEvent(typ, data)
}

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
func (p *player) hang() error { return p.await(nil) }

// await waits until a channel is closed.
func (p *player) await(closed <-chan struct{}) error {
	select {
	case <-closed:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}
