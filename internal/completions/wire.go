package completions

import (
	"encoding/json"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Meta is what all chunks of a stream, and a body, have in common.
type Meta struct {
	ID      string // of the completion, for example "cmpl-…"
	Model   string // as the client named it
	Created int64  // Unix time in seconds
	// IncludeUsage adds the usage chunk to a stream. A body always has it.
	IncludeUsage bool
	Choices      int    // how many turns answer the request, at least 1
	Echo         string // that each choice begins with
}

// completion is a CreateCompletionResponse, whole or a chunk of a stream.
type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   any      `json:"usage,omitempty"` // in a stream as in chat completions
}

// choice is a choice of a body or of a chunk.
type choice struct {
	Text         string             `json:"text"`
	Index        int                `json:"index"`
	LogProbs     json.RawMessage    `json:"logprobs"` // always null
	FinishReason *turn.FinishReason `json:"finish_reason"`
}

func (m *Meta) completion(choices []choice, usage any) completion {
	return completion{m.ID, "text_completion", m.Created, m.Model, choices, usage}
}

// null is written where a member must be there without a value.
var null = json.RawMessage("null")
