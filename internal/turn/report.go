package turn

import (
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// AbortUndeclared counts textual blocks that are in order but name no tool of
// the request: text, after all. It stands beside the aggregator's reasons.
const AbortUndeclared usetool.AbortReason = "undeclared"

// Report is what a turn did with tool calls, for headers, metrics and logs.
// Each block that Started was either Flushed or Aborted for a reason.
type Report struct {
	Started int                         // textual blocks begun
	Flushed int                         // textual blocks that were calls
	Aborted map[usetool.AbortReason]int // textual blocks that were not; nil: none

	Calls      int  // calls that the client got
	Truncated  bool // there were more calls than the limit allows
	Duplicates int  // calls dropped because they repeat another
	Unwritable int  // calls that the client got without a block, since none can hold their arguments
	TailBytes  int  // bytes of text after the last call that were dropped
}

func (r *Report) abort(reason usetool.AbortReason) {
	if r.Aborted == nil {
		r.Aborted = make(map[usetool.AbortReason]int)
	}
	r.Aborted[reason]++
}
