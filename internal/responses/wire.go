package responses

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// responseState has the first members of a Response, which change while the Response is made.
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

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incompleteDetails struct {
	Reason string `json:"reason"`
}

// usage is the JSON of the used tokens (ResponseUsage).
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

	// Estimated is true if this server has estimated a part of the tokens, because the response
	// was interrupted before its usage came. It is not a member of OpenAI's API.
	Estimated bool `json:"estimated,omitempty"`
}

func newUsage(u codexrpc.Usage, estimated bool) usage {
	w := usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, TotalTokens: u.TotalTokens, Estimated: estimated}
	w.InputDetails.CachedTokens = u.CachedInputTokens
	w.InputDetails.CacheWriteTokens = u.CacheWriteInputTokens
	w.OutputDetails.ReasoningTokens = u.ReasoningOutputTokens
	return w
}

// responseSettings has the members of a Response that repeat the request, or are always the same.
type responseSettings struct {
	Model              string           `json:"model"`
	Instructions       wirejson.Value   `json:"instructions"`
	PreviousResponseID *string          `json:"previous_response_id"`
	Tools              []wirejson.Value `json:"tools"`
	ToolChoice         wirejson.Value   `json:"tool_choice"`
	ParallelToolCalls  bool             `json:"parallel_tool_calls"`
	Text               struct {
		Format    wirejson.Value `json:"format"`
		Verbosity string         `json:"verbosity"`
	} `json:"text"`
	Reasoning struct {
		Effort  *string `json:"effort"`
		Summary *string `json:"summary"`
	} `json:"reasoning"`
	Metadata         wirejson.Value `json:"metadata"`
	Temperature      wirejson.Value `json:"temperature"`
	TopP             wirejson.Value `json:"top_p"`
	PresencePenalty  int            `json:"presence_penalty"`
	FrequencyPenalty int            `json:"frequency_penalty"`
	TopLogprobs      int            `json:"top_logprobs"`
	MaxOutputTokens  wirejson.Value `json:"max_output_tokens"`
	MaxToolCalls     wirejson.Value `json:"max_tool_calls"`
	Truncation       string         `json:"truncation"`
	Conversation     *conversation  `json:"conversation,omitempty"`
	Store            bool           `json:"store"`
	Background       bool           `json:"background"`
	ServiceTier      string         `json:"service_tier"`
	SafetyIdentifier wirejson.Value `json:"safety_identifier"`
	PromptCacheKey   wirejson.Value `json:"prompt_cache_key"`
	User             wirejson.Value `json:"user,omitempty"`
}

// conversation is the conversation of a Response (ResponseConversation).
type conversation struct {
	ID string `json:"id"`
}

// outputJSON is an item of the output (OutputItem). Its members depend on its type.
type outputJSON struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Status string `json:"status,omitempty"` // a summary has none

	Phase   string     `json:"phase,omitempty"`
	Role    string     `json:"role,omitempty"`
	Content []textPart `json:"content,omitzero"`

	Summary   []textPart `json:"summary,omitzero"`
	Encrypted any        `json:"encrypted_content,omitempty"` // a *string, which becomes null if the pointer is nil; an untyped nil: the member is absent

	CallID    string  `json:"call_id,omitempty"`
	Execution string  `json:"execution,omitempty"`
	Namespace string  `json:"namespace,omitempty"`
	Name      string  `json:"name,omitempty"`
	Arguments any     `json:"arguments,omitempty"` // a string, or an object
	Input     *string `json:"input,omitempty"`
	clientCall
}

// textPart is a part of a message (OutputTextContent) or of a reasoning's summary
// (SummaryTextContent). A part of a summary has no annotations and no logprobs.
type textPart struct {
	Type        string            `json:"type"`
	Text        string            `json:"text"`
	Annotations []json.RawMessage `json:"annotations,omitzero"`
	Logprobs    []struct{}        `json:"logprobs,omitzero"` // empty, or absent
}

// textPart returns a part of an item with this text. In a message, it has the annotations so far.
func (i *outputItem) textPart(text string) textPart {
	if i.Type == typeReasoning {
		return textPart{Type: "summary_text", Text: text}
	}
	return textPart{"output_text", text, append([]json.RawMessage{}, i.annotations...), []struct{}{}}
}

// event is a ResponseStreamEvent about an item. Only the members of its type are set. Events with a whole
// Response, and the text and the sequence number of deltas, are written without the JSON encoder.
type event struct {
	Type            string          `json:"type"`
	Sequence        *int64          `json:"sequence_number,omitempty"`
	ItemID          string          `json:"item_id,omitempty"`
	OutputIndex     int             `json:"output_index"`
	Item            *outputJSON     `json:"item,omitempty"`
	ContentIndex    *int            `json:"content_index,omitempty"`
	SummaryIndex    *int            `json:"summary_index,omitempty"`
	Part            *textPart       `json:"part,omitempty"`
	Name            string          `json:"name,omitempty"`
	Delta           string          `json:"delta,omitempty"`
	Text            *string         `json:"text,omitempty"`
	Arguments       *string         `json:"arguments,omitempty"`
	Input           *string         `json:"input,omitempty"`
	AnnotationIndex *int            `json:"annotation_index,omitempty"`
	Annotation      json.RawMessage `json:"annotation,omitempty"`
	Logprobs        []struct{}      `json:"logprobs,omitzero"` // empty, or absent
}

// Meta has the data that the events and the Response of one request share.
type Meta struct {
	ID      string // "resp_" and a suffix; the ids of the items have the same suffix
	Created int64  // Unix time in seconds
	// Now returns the current time, in Unix seconds. If Now is nil, completed_at stays null.
	Now func() int64
	// Keep is called with the whole response, before the client can read the last event or the body. It
	// returns false if the request wants the response stored and the store failed. Then the last event and
	// the body have `store: false`. Keep may be nil.
	Keep func(api.Record) bool
	// CallsInText is true if calls are part of the text, and not items of their own.
	CallsInText bool

	request      *Request
	settingsJSON []byte            // the members that never change, as an object
	summary      bool              // the response is a summary of the conversation
	userMessages []json.RawMessage // of the conversation; only for POST /v1/responses/compact, like openCalls
	openCalls    []json.RawMessage // the calls without an output, as items with ids
}

// Meta returns the Meta of the response. The caller sets all exported fields except ID. suffix is a part of
// the ids of the response and its items. It consists of letters and digits.
func (r *Request) Meta(suffix string) Meta {
	m := Meta{ID: responseid.Prefix + suffix, request: r, settingsJSON: r.settingsJSON(), summary: r.Shortening.Summary}
	if r.compact {
		m.userMessages = r.userMessages()
		for i, call := range r.openCalls {
			id := cmp.Or(call.id, responseid.Item(itemTypes[call.kind].idPrefix, r.Suffix, "c"+strconv.Itoa(i)))
			m.openCalls = append(m.openCalls, call.storedJSON(id))
		}
	}
	return m
}

// settingsJSON returns the responseSettings as JSON. Members that the request lacks have OpenAI's defaults.
func (r *Request) settingsJSON() []byte {
	e := r.echoed
	e.Model, e.Instructions, e.PreviousResponseID = r.Model, r.instructions, wirejson.OrNull(r.PreviousID)
	e.Store, e.Background, e.ServiceTier, e.ParallelToolCalls = r.Store, r.Background, r.ServiceTier(), !r.SerialTools
	e.Text.Verbosity, e.Truncation = cmp.Or(r.Verbosity, "medium"), cmp.Or(e.Truncation, "disabled")
	e.Reasoning.Effort, e.Reasoning.Summary = wirejson.OrNull(r.Effort), wirejson.OrNull(r.Summary)
	e.ToolChoice, e.Text.Format = orElse(e.ToolChoice, `"auto"`), orElse(e.Text.Format, `{"type":"text"}`)
	e.Metadata, e.Temperature, e.TopP = orElse(e.Metadata, "{}"), orElse(e.Temperature, "1"), orElse(e.TopP, "1")
	e.Tools = append([]wirejson.Value{}, e.Tools...)
	if r.ConversationID != "" {
		e.Conversation = &conversation{r.ConversationID}
	}
	return wirejson.Append(nil, e)
}

func orElse(v wirejson.Value, text string) wirejson.Value {
	if v == nil {
		return wirejson.Value(text)
	}
	return v
}

// completeTool returns a tool as a Response shows it: functions always have parameters and strict.
func completeTool(v wirejson.Value) wirejson.Value {
	var kind, parameters, strict wirejson.Value
	v.Pick(wirejson.Into("type", &kind), wirejson.Into("parameters", &parameters), wirejson.Into("strict", &strict))
	if !kind.Is("function") || parameters != nil && strict != nil {
		return v
	}
	v = slices.Clone(v[:len(v)-1])
	if parameters == nil {
		v = append(v, `,"parameters":null`...)
	}
	if strict == nil {
		v = append(v, `,"strict":null`...)
	}
	return append(v, '}')
}
