package responses

import (
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// pngURL is a valid data URL of an image.
const pngURL = "data:image/png;base64,iVBORw0KGgo="

var testUsage = codexrpc.Usage{TotalTokens: 12, InputTokens: 7, CachedInputTokens: 3, CacheWriteInputTokens: 1, OutputTokens: 5, ReasoningOutputTokens: 2}

func textOut(s string) turn.Output { return turn.Output{Kind: turn.OutputText, Text: s} }
func startOut(call int, id, name string) turn.Output {
	return turn.Output{Kind: turn.OutputCallStart, Call: call, ID: id, Name: name}
}
func argumentsOut(call int, id, s string) turn.Output {
	return turn.Output{Kind: turn.OutputCallArguments, Call: call, ID: id, Text: s}
}
func endOut(call int, id string) turn.Output {
	return turn.Output{Kind: turn.OutputCallEnd, Call: call, ID: id}
}
func finishOut(reason turn.FinishReason) turn.Output {
	return turn.Output{Kind: turn.OutputFinish, End: &turn.End{Finish: reason, Usage: testUsage}}
}
func failureOut(err error) turn.Output { return turn.Output{Kind: turn.OutputFailure, Err: err} }
