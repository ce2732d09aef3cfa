package turn

import (
	"errors"
	"strings"
)

// summary is the state of a turn that summarises the conversation, see [Options].Summary.
type summary struct {
	text      []byte // what the model has written of it
	refusals  int    // responses whose calls were refused
	hasCalls  bool   // the current response has calls
	tooLong   bool   // the text is longer than maxSummary
	suspended bool   // a call is open that the driver is to refuse; then Codex asks the model again
}

const (
	// maxSummary bounds a summary, in bytes. A model writes some ten thousand.
	maxSummary = 512 << 10
	// maxRefusals is how many responses may have calls, which the model was told not to make.
	maxRefusals = 3
)

// ErrNoSummary ends a turn in which the model has written no whole summary of the conversation.
var ErrNoSummary = errors.New("the model wrote no summary, so the conversation stays as it is; try again, or go on without")

func (s *summary) add(text string) {
	s.tooLong = s.tooLong || len(s.text)+len(text) > maxSummary
	if !s.tooLong {
		s.text = append(s.text, text...)
	}
}

// summaryResponseCompleted is called at the end of a model response. The text before calls is no summary.
func (m *Machine) summaryResponseCompleted() {
	s := &m.summary
	if !s.hasCalls {
		return
	}
	s.text, s.hasCalls = nil, false
	if s.refusals++; s.refusals > maxRefusals {
		m.fail(ErrNoSummary)
		return
	}
	m.expectResponse(true)
}

func (m *Machine) finishSummary() {
	text := strings.ToValidUTF8(strings.TrimSpace(string(m.summary.text)), "\uFFFD")
	if text == "" || m.summary.tooLong {
		m.fail(ErrNoSummary)
		return
	}
	m.out.emit(Output{Kind: OutputSummary, Text: text})
	m.emitFinish(FinishStop)
}
