package responses

import (
	"encoding/json"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// responseState has the members of a Response that change while it is made. The members
// of [settings] follow.
type responseState struct {
	ID          string             `json:"id"`
	Object      string             `json:"object"`
	CreatedAt   int64              `json:"created_at"`
	Status      string             `json:"status"`
	CompletedAt *int64             `json:"completed_at"`
	Error       *responseError     `json:"error"`
	Incomplete  *incompleteDetails `json:"incomplete_details"`
	Output      []outputJSON       `json:"output"`
	Usage       usage              `json:"usage"`
}

// responseError is a ResponseError.
type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// incompleteDetails say why a Response is incomplete.
type incompleteDetails struct {
	Reason string `json:"reason"`
}

// usage is a ResponseUsage.
type usage struct {
	InputTokens  int64 `json:"input_tokens"`
	InputDetails struct {
		CachedTokens     int64 `json:"cached_tokens"`
		CacheWriteTokens int64 `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens  int64 `json:"output_tokens"`
	OutputDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int64 `json:"total_tokens"`

	// Estimated is not OpenAI's: a part of the tokens was counted here, since the
	// response was interrupted before its usage came.
	Estimated bool `json:"estimated,omitempty"`
}

func newUsage(u codexrpc.Usage, estimated bool) usage {
	w := usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, TotalTokens: u.TotalTokens, Estimated: estimated}
	w.InputDetails.CachedTokens = u.CachedInputTokens
	w.InputDetails.CacheWriteTokens = u.CacheWriteInputTokens
	w.OutputDetails.ReasoningTokens = u.ReasoningOutputTokens
	return w
}

// settings are the members of a Response that repeat the request, and those that are
// always the same.
type settings struct {
	Model              string           `json:"model"`
	Instructions       jsontext.Value   `json:"instructions"`
	PreviousResponseID *string          `json:"previous_response_id"`
	Tools              []jsontext.Value `json:"tools"`
	ToolChoice         jsontext.Value   `json:"tool_choice"`
	ParallelToolCalls  bool             `json:"parallel_tool_calls"`
	Text               textSettings     `json:"text"`
	Reasoning          reasoning        `json:"reasoning"`
	Metadata           jsontext.Value   `json:"metadata"`
	Temperature        jsontext.Value   `json:"temperature"`
	TopP               jsontext.Value   `json:"top_p"`
	PresencePenalty    int              `json:"presence_penalty"`
	FrequencyPenalty   int              `json:"frequency_penalty"`
	TopLogprobs        int              `json:"top_logprobs"`
	MaxOutputTokens    jsontext.Value   `json:"max_output_tokens"`
	MaxToolCalls       jsontext.Value   `json:"max_tool_calls"`
	Truncation         string           `json:"truncation"`
	Conversation       *conversationRef `json:"conversation,omitempty"`
	Store              bool             `json:"store"`
	Background         bool             `json:"background"`
	ServiceTier        string           `json:"service_tier"`
	SafetyIdentifier   jsontext.Value   `json:"safety_identifier"`
	PromptCacheKey     jsontext.Value   `json:"prompt_cache_key"`
	User               jsontext.Value   `json:"user,omitempty"`
}

// textSettings is a ResponseTextParam.
type textSettings struct {
	Format    jsontext.Value `json:"format"`
	Verbosity string         `json:"verbosity"`
}

// reasoning is a Reasoning.
type reasoning struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

// outputJSON is an item of the output (OutputItem). Its members depend on its type.
type outputJSON struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Status string `json:"status"`

	Phase   string       `json:"phase,omitempty"`
	Role    string       `json:"role,omitempty"`
	Content []outputText `json:"content,omitzero"`

	Summary   []summaryText `json:"summary,omitzero"`
	Encrypted any           `json:"encrypted_content,omitempty"` // a *string, which may be null

	CallID    string  `json:"call_id,omitempty"`
	Execution string  `json:"execution,omitempty"`
	Namespace string  `json:"namespace,omitempty"`
	Name      string  `json:"name,omitempty"`
	Arguments any     `json:"arguments,omitempty"` // a string, or an object
	Input     *string `json:"input,omitempty"`
	clientCall
}

// outputText is an OutputTextContent.
type outputText struct {
	Type        string            `json:"type"`
	Text        string            `json:"text"`
	Annotations []json.RawMessage `json:"annotations"`
	Logprobs    []struct{}        `json:"logprobs"` // always empty
}

func newOutputText(text string) outputText {
	return outputText{"output_text", text, []json.RawMessage{}, []struct{}{}}
}

// outputText returns the text of a message.
func (i *outputItem) outputText() outputText {
	text := newOutputText(i.text.String())
	if i.annotations != nil {
		text.Annotations = i.annotations
	}
	return text
}

// summaryText is a part of a reasoning's summary (SummaryTextContent).
type summaryText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func newSummaryText(text string) summaryText { return summaryText{"summary_text", text} }

// event is a ResponseStreamEvent about an item. Its members depend on its type. Events
// with a whole Response are appended by hand, and so are the ends of deltas.
type event struct {
	Type            string          `json:"type"`
	Sequence        *int64          `json:"sequence_number,omitempty"`
	ItemID          string          `json:"item_id,omitempty"`
	OutputIndex     int             `json:"output_index"`
	Item            *outputJSON     `json:"item,omitempty"`
	ContentIndex    *int            `json:"content_index,omitempty"`
	SummaryIndex    *int            `json:"summary_index,omitempty"`
	Part            any             `json:"part,omitempty"` // an outputText or a summaryText
	Name            string          `json:"name,omitempty"`
	Delta           string          `json:"delta,omitempty"`
	Text            *string         `json:"text,omitempty"`
	Arguments       *string         `json:"arguments,omitempty"`
	Input           *string         `json:"input,omitempty"`
	AnnotationIndex *int            `json:"annotation_index,omitempty"`
	Annotation      json.RawMessage `json:"annotation,omitempty"`
	Logprobs        []struct{}      `json:"logprobs,omitzero"` // empty, or absent
}
