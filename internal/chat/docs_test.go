package chat

import (
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/docfields"
)

// documented are the fields of OpenAI's description (2.3.0), by the section of
// docs/openai.md that says what becomes of them.
var documented = map[string]string{
	// CreateChatCompletionRequest
	"## POST /v1/chat/completions": `metadata top_logprobs temperature top_p user safety_identifier prompt_cache_key
		prompt_cache_retention prompt_cache_options messages model service_tier modalities verbosity reasoning_effort
		max_completion_tokens frequency_penalty presence_penalty web_search_options response_format audio store moderation
		stream stop logit_bias logprobs max_tokens n prediction seed stream_options tools tool_choice parallel_tool_calls
		function_call functions`,
	// CreateChatCompletionResponse, ChatCompletionResponseMessage
	"### Answers": `id choices[].finish_reason choices[].index choices[].message.content choices[].message.refusal
		choices[].message.tool_calls choices[].message.annotations choices[].message.role choices[].message.function_call
		choices[].message.audio choices[].logprobs created model metadata service_tier system_fingerprint object
		usage.prompt_tokens usage.completion_tokens usage.total_tokens usage.prompt_tokens_details
		usage.completion_tokens_details moderation`,
	// CreateChatCompletionStreamResponse, ChatCompletionStreamResponseDelta
	"### Streams": `id choices[].delta.content choices[].delta.function_call choices[].delta.tool_calls choices[].delta.role
		choices[].delta.refusal choices[].logprobs choices[].finish_reason choices[].index created model obfuscation
		service_tier system_fingerprint object usage moderation`,
}

// TestEveryFieldIsDocumented looks for each field in the first column of a table
// of its section, and makes sure that no request field goes unread.
func TestEveryFieldIsDocumented(t *testing.T) {
	for section, fields := range documented {
		named := docfields.Named(t, "../../docs/openai.md", section)
		for _, field := range strings.Fields(fields) {
			if !named[field] {
				t.Errorf("%s says nothing of %s", section, field)
			}
			if section == "## POST /v1/chat/completions" && readers[field] == nil {
				t.Errorf("nobody reads %s", field)
			}
		}
	}
}

// TestReadersAreDocumented looks for each field that is read in the tables of its route.
func TestReadersAreDocumented(t *testing.T) {
	docfields.Read(t, "../../docs/openai.md", "## POST /v1/chat/completions", readers)
}
