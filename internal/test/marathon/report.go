package marathon

import (
	"errors"
	"fmt"
	"time"
)

// Report is what became of a session.
type Report struct {
	Counts
	// Turns are the prompts.
	Turns int
	Took  time.Duration
	// Failures are what the client complained about, wrong answers, and refusals of the gateway.
	Failures []string
	// Forgotten are the facts that were asked for and not known.
	Forgotten []string
}

// What a cache must have, in percent of the input: of a session between two summaries, of summaries.
const (
	leastCached        = 95
	leastSummaryCached = 90
)

// uncached are the clients whose requests for summaries begin otherwise than the ones before: the Codex CLI
// and responses.compact leave the tools out, and Claude Code may go back behind the last call.
var uncached = map[string]bool{"codex": true, "claude": true, "agent": true, "openai-compact": true}

// Check returns all that is wrong with the session of a client that had these options.
func (r Report) Check(client string, o Options) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(client+": "+format, args...)) }
	for _, failure := range r.Failures {
		wrong("%s", failure)
	}
	if len(r.Forgotten) > 0 {
		wrong("it has forgotten %q", r.Forgotten)
	}
	if r.Refused > 0 {
		wrong("%d requests were too long for the model", r.Refused)
	}
	if r.Pushed < o.Tokens || r.Summaries < o.Tokens/o.Window-1 {
		wrong("it has pushed only %d tokens, with %d summaries", r.Pushed, r.Summaries)
	}
	if r.CachedShare() < leastCached {
		wrong("only %.1f%% of its input was sent before", r.CachedShare())
	}
	if r.SummaryShare() < leastSummaryCached && !uncached[client] {
		wrong("only %.1f%% of the input for summaries was sent before", r.SummaryShare())
	}
	return errors.Join(errs...)
}
