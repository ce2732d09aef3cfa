// Package messages is the wire format of Anthropic's Messages API.
//
// [Decode] checks the body of a request, and [Request.Plan] maps the request to Codex. The outputs
// of a turn become content blocks. An [Encoder] encodes the blocks as events or as one message, so
// both have the same content.
package messages

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Request is the checked body of POST /v1/messages.
type Request struct {
	prompt.Conversation

	// Thinking says whether the answer has thinking blocks.
	Thinking Thinking

	deferred         deferredTools
	searchName       string // the name of the web search in the request; tool_choice may refer to it
	thinkingBudget   int    // budget_tokens of the field thinking; 0: it is not given
	thinkingDisabled bool   // the field thinking has the type disabled; false: it has another type or is not given

	management *contextManagement // what context_management has cleared; nil: the field is not given

	// The values of the members that are read after all others.
	system, messages, tools, toolChoice, contextManagement wirejson.Value
}

// Thinking is the form of the model's reasoning in an answer.
type Thinking uint8

const (
	// ThinkingOff leaves the reasoning out.
	ThinkingOff Thinking = iota
	// ThinkingOmitted: thinking blocks without a text, but with the encrypted reasoning as signature.
	ThinkingOmitted
	// ThinkingShown: thinking blocks with the summaries of the reasoning, and the signatures.
	ThinkingShown
)

// Decode reads and checks a body, see [prompt]. A document that Codex cannot read is no error, but
// a notice for the model, since clients keep documents in their history for ever.
func Decode(body []byte) (*Request, *apierror.Error) {
	return field.Body(body, new(Request), (*Request).read)
}

var readers = field.Readers[*Request]{
	"model":         (*Request).ReadModel,
	"messages":      func(r *Request, v wirejson.Value) *field.Error { r.messages = v; return nil },
	"system":        func(r *Request, v wirejson.Value) *field.Error { r.system = v; return nil },
	"tools":         func(r *Request, v wirejson.Value) *field.Error { r.tools = v; return nil },
	"tool_choice":   func(r *Request, v wirejson.Value) *field.Error { r.toolChoice = v; return nil },
	"max_tokens":    func(r *Request, v wirejson.Value) *field.Error { return field.Limit(&r.MaxTokens, v) },
	"stream":        (*Request).ReadStream,
	"thinking":      (*Request).readThinking,
	"output_config": (*Request).readOutputConfig,
	"output_format": (*Request).readFormat,
	"speed":         (*Request).readSpeed,

	"stop_sequences": (*Request).readStops,

	"temperature": unusedField("temperature", "1", wirejson.KindNumber),
	"top_p":       unusedField("top_p", "1", wirejson.KindNumber),
	"top_k":       unusedField("top_k", "", wirejson.KindNumber),
	"compaction":  (*Request).readCompaction,

	"context_management": func(r *Request, v wirejson.Value) *field.Error { r.contextManagement = v; return nil },

	"metadata":      unusedField("", "", wirejson.KindObject),
	"service_tier":  unusedField("", "", wirejson.KindString),
	"inference_geo": unusedField("", "", wirejson.KindString),
	"cache_control": unusedField("", "", wirejson.KindObject),

	"fallbacks":             nil,
	"fallback_credit_token": nil,
	"billing_policy":        nil,
	"diagnostics":           nil,

	"container":   field.Refused[*Request]("code runs at Anthropic only, and there are no containers here"),
	"mcp_servers": refuseServers,
	"thread":      refuseThread,
}

var unusedField = prompt.Unused[*Request]

// refuseServers refuses MCP servers, which only Anthropic could call. An empty list is accepted.
func refuseServers(_ *Request, v wirejson.Value) *field.Error {
	if v.Kind() == wirejson.KindArray && v.IsEmptyArray() {
		return nil
	}
	return field.Refuse(v, "MCP servers are called by Anthropic only; connect the client to them")
}

// codeThread is the error code for the field thread. Anthropic's SDK then sends the whole history.
const codeThread apierror.Code = "thread_unsupported_request"

func refuseThread(_ *Request, v wirejson.Value) *field.Error {
	f := field.Refuse(v, "send the whole history in 'messages'")
	if f != nil {
		f.Code = codeThread
	}
	return f
}

func (r *Request) read(root wirejson.Value) *field.Error {
	r.Body = root
	if f := field.Members(root, r, readers); f != nil {
		return f
	}
	if r.Model == "" {
		return field.Missing().In("model")
	}
	r.DefaultsModel = IsClaude(r.Model)
	if f := r.readTools(r.tools).In("tools"); f != nil { // before the messages, which refer to deferred tools
		return f
	}
	if f := r.readSystem(r.system).In("system"); f != nil {
		return f
	}
	r.Repeated = len(r.Messages)
	if f := cmp.Or(r.readMessages(r.messages).In("messages"), r.readChoice(r.toolChoice).In("tool_choice")); f != nil {
		return f
	}
	if r.Shortening.Summary && r.contextManagement.Given() {
		return field.Invalid("cannot be combined with context_management").In("compaction")
	}
	if f := r.editContext(r.contextManagement).In("context_management"); f != nil {
		return f
	}
	r.chooseEffort()
	r.Shortening.Instructions = strings.TrimSpace(r.Shortening.Instructions)
	return r.CheckRemoteImages().In("messages")
}

// billingPrefix is the beginning of a block that Claude Code adds to the system prompt. The model does not
// get this block, which differs in each conversation.
const billingPrefix = "x-anthropic-billing-header:"

// readSystem reads the system prompt: a text, or blocks of text.
func (r *Request) readSystem(v wirejson.Value) *field.Error {
	if !v.Given() {
		return nil
	}
	m := prompt.Message{Role: prompt.RoleSystem, Size: len(v)}
	f := m.ReadContent(v, func(_ *prompt.Message, v wirejson.Value) (prompt.Part, *field.Error) {
		var kind, text wirejson.Value
		if f := field.Typed(&kind, v, wirejson.Into("text", &text)); f != nil {
			return prompt.Part{}, f
		}
		if !kind.Is("text") {
			return prompt.Part{}, field.Invalid("must be text").In("type")
		}
		p, f := prompt.TextPart("text", text)
		if f == nil && bytes.HasPrefix(text.RawText(), []byte(billingPrefix)) {
			p.Text = prompt.NoText // see billingPrefix
		}
		return p, f
	})
	if f != nil {
		return f
	}
	r.Messages = append(r.Messages, m)
	return r.Count(&m)
}

// WithoutSearch fails if the request has a web search, which the operator does not allow.
func (r *Request) WithoutSearch() *apierror.Error {
	if r.Search == nil {
		return nil
	}
	return field.Unsupported("the operator of this server has not allowed web searches (option web_search)").In("tools").APIError()
}

// Plan returns the plan of the turn, see [prompt.Conversation.Plan].
func (r *Request) Plan(opts prompt.Options) (*prompt.Plan, *apierror.Error) {
	if r.Thinking != ThinkingShown {
		opts.Summary = "none"
	}
	return r.Conversation.Plan(opts)
}

// IsClaude reports whether a name belongs to one of Anthropic's models.
func IsClaude(model string) bool { return strings.HasPrefix(model, "claude") }
