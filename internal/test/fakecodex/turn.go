package fakecodex

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

func (s *server) startTurn(t *thread, id string, params gjson.Result) {
	p := &player{server: s, thread: t, start: id, interrupts: make(chan string, 1)}
	s.mu.Lock()
	busy := t.player != nil
	if !busy {
		p.id = s.newID()
		t.player = p
	}
	s.mu.Unlock()
	if busy {
		s.refuse(id, codeInvalid, "a turn is already in progress")
		return
	}
	if s.opts.Turn != nil {
		s.mu.Lock()
		asked := t.asked(p.id)
		t.history += inputKey(params.Get("input"))
		s.mu.Unlock()
		asked.Params = params.Raw
		p.turn = generated(s.opts.Turn(asked), t.id, p.id)
	} else {
		p.turn = s.recorded(t, inputKey(params.Get("input")))
	}
	s.players.Go(p.play)
}

// recorded returns the recording for a turn, or a turn that fails.
func (s *server) recorded(t *thread, input string) *turn {
	if found := s.opts.Transcripts.find(input, t.history, s.opts.Default); found != nil {
		return found
	}
	return unknownTurn(input)
}

// interrupt passes an interrupt to the running turn with this id.
func (s *server) interrupt(t *thread, id, turnID string) {
	s.mu.Lock()
	p := t.player
	s.mu.Unlock()
	switch {
	case p == nil:
		s.refuse(id, codeInvalid, "no active turn to interrupt")
		return
	case turnID != "" && turnID != p.id: // empty means the active turn
		s.refuse(id, codeInvalid, "expected active turn id %s but found %s", turnID, p.id)
		return
	}
	select {
	case p.interrupts <- id:
	default:
		s.refuse(id, codeInvalid, "the turn is being interrupted")
		return
	}
	// The turn may have ended in between, without a check for interrupts.
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.player != p {
		p.refuseLate()
	}
}

// steer keeps a message of the user's for a turn that waits for results.
func (s *server) steer(t *thread, id string, params gjson.Result) {
	s.mu.Lock()
	p := t.player
	fits := p != nil && params.Get("expectedTurnId").Str == p.id
	if fits {
		t.steered += inputKey(params.Get("input"))
	}
	s.mu.Unlock()
	if !fits {
		s.refuse(id, codeInvalid, "no such active turn to steer")
		return
	}
	s.answer(id, `{"turnId":`+wirejson.Quote(p.id)+`}`)
}

// The ids of a turn without a recording.
const (
	noThread = "thread-none"
	noTurn   = "turn-none"
)

// unknownTurn returns a turn that fails because no recording has its input.
func unknownTurn(input string) *turn {
	text := strings.TrimSuffix(strings.ReplaceAll(input, separator, " | "), " | ")
	failure := fmt.Sprintf(`{"message":%s,"codexErrorInfo":"other","additionalDetails":null}`,
		wirejson.Quote("fakecodex: no recording has the input "+wirejson.Quote(text)))
	return &turn{thread: noThread, id: noTurn, steps: []step{
		{kind: sendStartAnswer, id: "0", message: `{"id":0,"result":{"turn":` + turnObject(noTurn, "inProgress", "null") + `}}`},
		{message: `{"method":"turn/started","params":{"threadId":"` + noThread + `","turn":` + turnObject(noTurn, "inProgress", "null") + `}}`},
		{message: `{"method":"error","params":{"error":` + failure + `,"willRetry":false,"threadId":"` + noThread + `","turnId":"` + noTurn + `"}}`},
		{message: completed(noThread, noTurn, "failed", failure)},
	}}
}

// turnCompleted is the method of the last message of a turn.
const turnCompleted = "turn/completed"

// completed returns the last message of a turn.
func completed(threadID, turnID, status, failure string) string {
	return `{"method":"` + turnCompleted + `","params":{"threadId":` + wirejson.Quote(threadID) + `,"turn":` + turnObject(turnID, status, failure) + `}}`
}

func turnObject(id, status, failure string) string {
	return fmt.Sprintf(`{"id":%s,"items":[],"itemsView":"notLoaded","status":%s,"error":%s}`, wirejson.Quote(id), wirejson.Quote(status), failure)
}

func expects(steps []step) bool {
	return slices.ContainsFunc(steps, func(s step) bool { return s.kind == awaitInterrupt })
}
