package gateway

import (
	"fmt"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// ModeAuto lets each request decide about its form of tool calls.
const ModeAuto turn.Mode = "auto"

// Textual says which <use_tool> blocks in a model's text are calls.
type Textual string

const (
	// TextualAuto takes any block for a client of ModeXML. For others it takes
	// those that name a tool of the request, or any if the request's own
	// instructions speak of such blocks; people ask models about XML, too.
	TextualAuto Textual = "auto"
	// TextualOn takes any block for every client.
	TextualOn Textual = "on"
	// TextualOff takes none: blocks are text.
	TextualOff Textual = "off"
)

// Tools says in which form, and how many, tool calls reach a client. The fields
// are those of [turn.Options].
type Tools struct {
	Mode         turn.Mode // or ModeAuto
	Textual      Textual
	Stop         turn.StopMode
	Grace        time.Duration
	SuppressTail bool
	Max          int
	Dedup        bool
	Delimiter    string
	Serial       bool // at most one call a turn, whatever the client allows
	Escaping     usetool.Escaping
}

// The headers that tell about tool calls, and the one by which a request
// chooses the form itself.
const (
	modeHeader      = "X-Proxy-Output-Mode"
	stopHeader      = "X-Codex-Stop-After-Tools-Mode"
	countHeader     = "X-Codex-Tool-Call-Count"
	truncatedHeader = "X-Codex-Tool-Call-Truncated"
)

// opener is what instructions say that teach a model textual calls.
const opener = "<use_tool"

// conversation is what a decoded request tells about itself.
type conversation interface {
	InstructionsContain(text string) bool
	DeclaresTools() bool
}

// turnOptions decides how this request's turn treats tool calls.
func (t *Tools) turnOptions(r *http.Request, request conversation, plan *openai.Plan) (turn.Options, *openai.Error) {
	taught := request.InstructionsContain(opener)
	mode, refusal := t.mode(r, taught && !request.DeclaresTools())
	if refusal != nil {
		return turn.Options{}, refusal
	}
	o := turn.Options{
		ClientName:   plan.Tools.ClientName,
		Mode:         mode,
		Escaping:     t.Escaping,
		Stop:         t.Stop,
		Grace:        t.Grace,
		SuppressTail: t.SuppressTail,
		MaxCalls:     t.Max,
		Dedup:        t.Dedup,
		Delimiter:    t.Delimiter,

		StopSequences: plan.StopSequences,
		MaxTokens:     plan.MaxTokens,
	}
	if t.Serial || !plan.ParallelToolCalls {
		o.MaxCalls = 1
	}
	switch {
	case t.Textual == TextualOff:
	case t.Textual == TextualOn, mode == turn.ModeXML, taught:
		o.Textual = true
	case len(plan.Thread.DynamicTools) > 0:
		o.Textual = true
		o.AcceptTextual = offered(plan)
	}
	return o, nil
}

// mode is the form of the calls: the request's header, else the configured
// one, else what the request looks like.
func (t *Tools) mode(r *http.Request, obsidian bool) (turn.Mode, *openai.Error) {
	switch asked := turn.Mode(r.Header.Get(modeHeader)); asked {
	case turn.ModeJSON, turn.ModeXML:
		return asked, nil
	case "":
	default:
		return "", openai.InvalidRequest("", fmt.Sprintf("The header x-proxy-output-mode must be openai-json or obsidian-xml, not %.64s.", asked))
	}
	switch {
	case t.Mode != ModeAuto:
		return t.Mode, nil
	case obsidian:
		return turn.ModeXML, nil
	}
	return turn.ModeJSON, nil
}

// offered accepts the names of the tools that this request offers, by the
// client's names and by Codex's.
func offered(plan *openai.Plan) func(string) bool {
	names := make(map[string]bool, 2*len(plan.Thread.DynamicTools))
	for _, tool := range plan.Thread.DynamicTools {
		names[tool.Name] = true
		if client, ok := plan.Tools.ClientName(tool.Name); ok {
			names[client] = true
		}
	}
	return func(name string) bool { return names[name] }
}
