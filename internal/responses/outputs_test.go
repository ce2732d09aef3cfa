package responses

import (
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

const pngURL = "data:image/png;base64,iVBORw0KGgo="

var testUsage = codexrpc.Usage{TotalTokens: 12, InputTokens: 7, CachedInputTokens: 3, CacheWriteInputTokens: 1, OutputTokens: 5, ReasoningOutputTokens: 2}

func textOut(s string) turn.Output { return turn.Output{Kind: turn.OutputText, Text: s} }
func callOut(call int, id, name, arguments string) turn.Output {
	return turn.Output{Kind: turn.OutputCall, Call: call, ID: id, Name: name, Text: arguments}
}
func finishOut(reason turn.FinishReason) turn.Output {
	return turn.Output{Kind: turn.OutputFinish, End: &turn.End{Finish: reason, Usage: testUsage}}
}
func failureOut(err error) turn.Output { return turn.Output{Kind: turn.OutputFailure, Err: err} }
