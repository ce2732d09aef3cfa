package gateway

import (
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// see remembers the begin and the end of a turn among its outputs.
func (c *choice) see(outputs []turn.Output) {
	if c.first.IsZero() && outputs[0].Kind != turn.OutputFinish && outputs[0].Kind != turn.OutputFailure {
		c.first = time.Now()
	}
	if last := &outputs[len(outputs)-1]; last.Kind == turn.OutputFinish || last.Kind == turn.OutputFailure {
		c.usage = last.Usage
		c.report = c.machine.Report()
	}
}

// toolsOf sums up what the choices have done with tool calls, as far as a
// client is told.
func toolsOf(choices []*choice) (sum turn.Report) {
	for _, c := range choices {
		sum.Calls += c.report.Calls
		sum.Truncated = sum.Truncated || c.report.Truncated
	}
	return sum
}

// record is the turn as it is remembered, once it is no longer driven: failure
// is why the request failed, lost why the client did not get the answer.
func (c *choice) record(failure, lost error) Record {
	record := Record{Choice: c.index, Status: http.StatusOK, Usage: c.usage, Tools: c.machine.Report()}
	e := openai.FromFailure(failure)
	if lost != nil {
		e = openai.ClientGone()
	}
	if e != nil {
		record.Status, record.Code = e.Status, e.Code
	}
	return record
}
