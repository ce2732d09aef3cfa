package responses

import (
	"github.com/caddy-codex/caddy-codex/internal/test/outputs"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

const pngURL = "data:image/png;base64,iVBORw0KGgo="

var textOut, callOut, finishOut = outputs.Text, outputs.Call, outputs.Finish

func failureOut(err error) turn.Output { return turn.Output{Kind: turn.OutputFailure, Err: err} }
