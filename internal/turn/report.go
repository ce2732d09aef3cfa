package turn

import (
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// AbortUndeclared is the reason of textual blocks that are well-formed but name no tool of
// the request. It extends the reasons of package usetool.
const AbortUndeclared usetool.AbortReason = "undeclared"

// Report is what a turn did with tool calls and text, for headers, metrics and logs. Each
// block in Started is in Flushed or in Aborted as well.
type Report struct {
	Started int                         // textual blocks begun
	Flushed int                         // textual blocks that were calls
	Aborted map[usetool.AbortReason]int // textual blocks that were no calls; nil: none

	Calls      int  // calls that the client got
	Truncated  bool // there were more calls than the limit allows
	Duplicates int  // calls dropped because they repeat another
	Unwritable int  // calls that the client got without a block, since their arguments cannot be written as one
	TailBytes  int  // bytes of text after the last call that were dropped

	TextDiffers bool // in the end Codex had another text of a message than that of its deltas
}

func (r *Report) abort(reason usetool.AbortReason) {
	if r.Aborted == nil {
		r.Aborted = make(map[usetool.AbortReason]int)
	}
	r.Aborted[reason]++
}
