package clients

import (
	"net/http"
	"strings"
)

// The expectations of clients that do not show all that they get.

// agentsOmit: the Agents SDK has no finish reasons.
func agentsOmit(want *seen) { want.Finish = "" }

// langGraphOmits: the graph has no finish reason of a message that it streamed.
func langGraphOmits(want *seen) {
	if want.Way == "stream" {
		want.Finish = ""
	}
}

// mastraOmits: Mastra's model router does not ask for the usage of a stream.
func mastraOmits(want *seen) {
	if want.Way == "stream" {
		want.Usage = seenUsage{}
	}
}

// genkitOmits: Genkit's plugin shows three counts of the usage. It drops the text of an
// answer with calls, and maps their finish reason to its own "stop". It maps errors to
// its own statuses, which have no 502, and drops their codes.
func genkitOmits(want *seen) {
	if err := want.Error; err != nil {
		err.Code = ""
		if err.Status == 0 || err.Status == 502 {
			err.Status = 500
		}
		return
	}
	want.Usage.Cached, want.Usage.Reasoning = 0, 0
	if want.Finish == "tool_calls" {
		want.Content, want.Finish = "", "stop"
	}
}

// llamaIndexOmits: LlamaIndex does not ask for the usage of a stream, and its agent
// always streams.
func llamaIndexOmits(want *seen) {
	if want.Way == "stream" || strings.HasPrefix(want.Case, "results") {
		want.Usage = seenUsage{}
	}
}

// goOpenAIOmits: go-openai does not show the headers of an error.
func goOpenAIOmits(want *seen) {
	if want.Error != nil {
		want.Error.RetryAfter = ""
	}
}

// anthropicCodes are the types that Anthropic's clients read for the codes of OpenAI's.
var anthropicCodes = map[string]string{
	"rate_limit_exceeded": "rate_limit_error", "invalid_request": "invalid_request_error", "server_overloaded": "overloaded_error",
	"upstream_disconnected": "api_error",
}

// anthropicOmits: Anthropic's API has types of errors instead of codes, and a status of its own
// for an overload. Two messages of the model's are two blocks without a separator.
func anthropicOmits(want *seen) {
	want.Content = strings.TrimSpace(want.Content)
	if err := want.Error; err != nil {
		err.Code = anthropicCodes[err.Code]
		if err.Status == http.StatusServiceUnavailable {
			err.Status = 529
		}
	}
}

// vercelAnthropicOmits: the AI SDK has no types of errors.
func vercelAnthropicOmits(want *seen) {
	anthropicOmits(want)
	if want.Error != nil {
		want.Error.Code = ""
	}
}

// langChainAnthropicOmits: LangChain counts thinking as part of the output.
func langChainAnthropicOmits(want *seen) {
	anthropicOmits(want)
	want.Usage.Reasoning = 0
}

// ollamaOmits: Ollama's API has no codes of errors and no cached or reasoning tokens, and stops
// also after calls. Its clients do not show the headers of an error.
func ollamaOmits(want *seen) {
	if err := want.Error; err != nil {
		err.Code, err.RetryAfter = "", ""
	}
	want.Usage.Cached, want.Usage.Reasoning = 0, 0
	if want.Finish == "tool_calls" {
		want.Finish = "stop"
	}
}

// vercelOllamaOmits: the AI SDK shows headers, and makes its own finish reason of calls.
func vercelOllamaOmits(want *seen) {
	if want.Error != nil {
		want.Error.Code = ""
	}
	want.Usage.Cached, want.Usage.Reasoning = 0, 0
}
