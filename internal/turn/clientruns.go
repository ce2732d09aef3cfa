package turn

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// clientRuns counts the blocks that an Obsidian client would run in a turn's text, also blocks that are no
// calls for a Choice. It gets the parts of the Choice before the policy gets them. For an Obsidian client,
// it ends the turn before a block above the limit. For other clients, it only reports too many calls.
type clientRuns struct {
	limit     int  // of calls; 0: nothing is counted, since the turn has no limit of its own or has exceeded it
	runsText  bool // the client is an Obsidian client
	runs      usetool.Runs
	readUntil int64 // the offset in the text up to which runs has read
	exceeded  bool  // the model wrote more calls than the limit allows
}

func newClientRuns(opts *Options) clientRuns {
	r := clientRuns{runsText: opts.writesBlocks()}
	if limit := opts.maxCalls(); opts.findsBlocks() && limit < aggregator.DefaultMaxCalls {
		r.limit = limit
	}
	return r
}

// admit counts what an Obsidian client would run of a part. If this includes a call above the limit, and
// the client is an Obsidian client, it returns false, and the part's text ends before this call. In a part
// with a call, the text becomes the model's block if the client runs this block as exactly this call, or
// else empty, so that the policy writes a new block.
func (r *clientRuns) admit(p *aggregator.Part) bool {
	if p.Kind == aggregator.PartCall {
		p.Text = findable(p)
	}
	within := true
	switch {
	case r.limit == 0:
	case p.Kind == aggregator.PartText:
		within = r.readText(p)
	case p.Kind == aggregator.PartBlockAborted && p.Pattern == "":
		r.readUntil = p.Offset + int64(len(p.Block)) // the block comes again, in parts of text
		within = r.runs.Read(p.Block, r.limit) == len(p.Block)
	case p.Kind == aggregator.PartCall:
		within = r.countCall(p)
	}
	if within {
		return true
	}
	r.exceeded, r.limit, r.runs = true, 0, usetool.Runs{}
	return !r.runsText
}

// readText reads text that is no call. For the client, a block that the scanner gave up may still be open.
func (r *clientRuns) readText(p *aggregator.Part) bool {
	alreadyRead := int(min(max(0, r.readUntil-p.Offset), int64(len(p.Text))))
	n := alreadyRead + r.runs.ReadOpen(p.Text[alreadyRead:], r.limit)
	within := n == len(p.Text)
	if r.runsText {
		p.Text = p.Text[:n]
	}
	return within
}

// countCall counts a call. Its text stays if it is the model's block and the client runs this block as one
// call within the limit. Otherwise the text becomes empty, and the client gets a new block.
func (r *clientRuns) countCall(p *aggregator.Part) bool {
	after := r.runs
	if p.Text != "" && after.Read(p.Text, r.limit) == len(p.Text) {
		r.runs = after
		return true
	}
	p.Text = ""
	r.runs.Made()
	return r.runs.Count() <= r.limit
}

// findable returns the block of a call as Obsidian clients find it: with <use_tool> without attributes. It
// returns "" for a block of another pattern.
func findable(p *aggregator.Part) string {
	if p.Pattern != "" {
		return ""
	}
	if _, rest, ok := strings.Cut(p.Text, ">"); ok && !strings.HasPrefix(p.Text, "<use_tool>") {
		return "<use_tool>" + rest
	}
	return p.Text
}
