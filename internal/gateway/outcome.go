package gateway

import (
	"net/http"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// outcome is how a turn ended for its client.
type outcome struct {
	usage codexrpc.Usage
	err   error // why the turn failed
}

// see remembers the end of a turn among its outputs.
func (o *outcome) see(outputs []turn.Output) {
	if len(outputs) == 0 {
		return
	}
	switch last := &outputs[len(outputs)-1]; last.Kind {
	case turn.OutputFinish:
		o.usage = last.Usage
	case turn.OutputFailure:
		o.err = last.Err
	}
}

// record is the turn as it is remembered. lost is why the client did not get
// the answer, if it did not.
func (o *outcome) record(lost error) Record {
	record := Record{Status: http.StatusOK, Usage: o.usage}
	switch {
	case lost != nil:
		record.Status, record.Code = statusClientGone, "client_gone"
	case o.err != nil:
		e := openai.FromFailure(o.err)
		record.Status, record.Code = e.Status, e.Code
	}
	return record
}
