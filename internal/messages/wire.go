package messages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Meta has the data about an answer that an [Encoder] needs.
type Meta struct {
	ID          string // of the message, for example "msg_…"
	Model       string // the name by which the client asked for the model
	Thinking    Thinking
	Deferred    string // the name of the function for deferred tools; empty: there is none
	CallsInText bool   // the text contains the calls, so there are no tool_use blocks
	Priority    bool   // the request asks the provider for the service tier priority
	InputTokens int64  // an estimate of the input's tokens, for the beginning of a stream and for a turn without a usage

	management *contextManagement // see [Request]
}

// Meta returns the Meta of the answer. id becomes the id of the message.
func (r *Request) Meta(id string) Meta {
	return Meta{
		ID: id, Model: r.Model, Thinking: r.Thinking, Deferred: r.deferred.functionName,
		Priority: r.ServiceTier() == "priority", InputTokens: int64(r.EstimateTokens(0)),
		management: r.management,
	}
}

// message is a Message.
type message struct {
	ID      string  `json:"id"`
	Type    string  `json:"type"` // message
	Role    string  `json:"role"` // assistant
	Model   string  `json:"model"`
	Content []block `json:"content"`
	ending
	Container json.RawMessage `json:"container"` // always null
	Usage     usage           `json:"usage"`

	Management *contextManagement `json:"context_management,omitempty"`
}

func (m *Meta) message(content []block, end ending, u usage) message {
	return message{m.ID, "message", "assistant", m.Model, append([]block{}, content...), end, nil, u, m.management}
}

// iteration is a BetaCompactionIterationUsage or a BetaMessageIterationUsage. An input token counts in one of Input,
// CacheWrite and CacheRead.
type iteration struct {
	Type       string `json:"type,omitempty"` // compaction or message
	Input      int64  `json:"input_tokens"`
	CacheWrite int64  `json:"cache_creation_input_tokens"`
	CacheRead  int64  `json:"cache_read_input_tokens"`
	Output     int64  `json:"output_tokens"`
	Model      string `json:"model,omitempty"`
}

func newIteration(kind, model string, u codexrpc.Usage) iteration {
	input := max(0, u.InputTokens-u.CachedInputTokens-u.CacheWriteInputTokens)
	return iteration{kind, input, u.CacheWriteInputTokens, u.CachedInputTokens, u.OutputTokens, model}
}

// usage is Anthropic's BetaUsage.
type usage struct {
	iteration // without Type and Model
	Details   struct {
		Thinking int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
	Tools struct {
		Searches int `json:"web_search_requests"`
	} `json:"server_tool_use,omitzero"`
	Tier string `json:"service_tier"`
	// Iterations has the use of summaries, which is not in the other members, and that of the answer.
	Iterations []iteration `json:"iterations,omitempty"`
	// Estimated is true if this server has estimated a part of the tokens, because the response
	// was interrupted before its usage came. It is not a member of Anthropic's API.
	Estimated bool `json:"estimated,omitempty"`
}

// usage returns the usage in end, without that of a summary, if summary is not nil. searches is how many web searches
// there were.
func (m *Meta) usage(end, summary *turn.End, searches int) usage {
	u, estimated := end.Usage, end.Estimated
	if summary != nil {
		u, estimated = u.Sub(summary.Usage), estimated && end != summary
	}
	if estimated && u.InputTokens == 0 { // clients decide by this number when to compact a conversation
		u.InputTokens = m.InputTokens
	}
	w := usage{iteration: newIteration("", "", u), Tier: m.tier(), Estimated: estimated}
	w.Details.Thinking, w.Tools.Searches = u.ReasoningOutputTokens, searches
	if summary != nil {
		w.Iterations = []iteration{newIteration(typeSummary, "", summary.Usage), newIteration("message", m.Model, u)}
		if end == summary {
			w.Iterations = w.Iterations[:1]
		}
	}
	return w
}

func (m *Meta) tier() string {
	if m.Priority {
		return "priority"
	}
	return "standard"
}

// ending has the members of a message that say how the answer has ended. It is zero before the end.
type ending struct {
	Reason   *string         `json:"stop_reason"`
	Sequence *string         `json:"stop_sequence"`
	Details  json.RawMessage `json:"stop_details"`
}

// stopReasons are the values of stop_reason, by how the turn has ended.
var stopReasons = map[turn.FinishReason]string{
	turn.FinishStop: "end_turn", turn.FinishLength: "max_tokens", turn.FinishToolCalls: "tool_use", turn.FinishContentFilter: "refusal",
}

// newEnding returns the ending of a turn. sequence is the stop sequence that has ended the turn, or empty.
func newEnding(finish turn.FinishReason, sequence string) ending {
	e := ending{Reason: wirejson.OrNull(stopReasons[finish]), Sequence: wirejson.OrNull(sequence)}
	if sequence != "" {
		e.Reason = new("stop_sequence")
	}
	if finish == turn.FinishContentFilter {
		e.Details = json.RawMessage(`{"type":"refusal","category":null,"explanation":null}`)
	}
	return e
}

// block is a ContentBlock. Only the members that belong to its type are set.
type block struct {
	Type      string          `json:"type"`
	ID        string          `json:"id,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature *string         `json:"signature,omitempty"`
	Text      *string         `json:"text,omitempty"`
	Citations []citation      `json:"citations,omitempty"`
	Content   any             `json:"content,omitempty"`           // a list of searchResult or, in a summary, *string
	Encrypted any             `json:"encrypted_content,omitempty"` // *string
}

// The types of blocks.
const (
	typeText         = "text"
	typeThinking     = "thinking"
	typeToolUse      = "tool_use"
	typeSearch       = "server_tool_use"
	typeSearchResult = "web_search_tool_result"
	typeSummary      = "compaction"
)

// searchResult is a page that a web search has found (WebSearchResultBlock).
type searchResult struct {
	Type      string          `json:"type"` // web_search_result
	URL       string          `json:"url"`
	Title     string          `json:"title"`
	Encrypted string          `json:"encrypted_content"` // the encrypted content of the page; always empty
	PageAge   json.RawMessage `json:"page_age"`          // always null
}

// citation is a web page that a text cites (CitationsWebSearchResultLocation).
type citation struct {
	Type      string `json:"type"` // web_search_result_location
	URL       string `json:"url"`
	Title     string `json:"title"`
	CitedText string `json:"cited_text"`
	Encrypted string `json:"encrypted_index"` // always empty
}

func citations(annotations string) (all []citation) {
	var decoded []struct{ Type, URL, Title string }
	_ = json.Unmarshal([]byte(annotations), &decoded) // annotations that cannot be read are left out
	for _, g := range decoded {
		if g.Type == "url_citation" {
			all = append(all, citation{Type: "web_search_result_location", URL: g.URL, Title: g.Title})
		}
	}
	return all
}

// unparsedMember has arguments that cannot be an input, see wrapUnparsed. The name is Claude Code's.
const unparsedMember = "__unparsedToolInput"

// aroundInput is how many arrays and objects of a request are around the input of a tool_use block:
// the request, its messages, the message, its content, and the block.
const aroundInput = 5

// wrapUnparsed returns the arguments of a call as a JSON object, since the input of a tool_use has to be an
// object. Empty arguments become {}. An object stays, unless unwrapUnparsed would change it, or it is
// nested too deeply for the next request. All other arguments become a text in unparsedMember.
func wrapUnparsed(arguments string) string {
	if arguments == "" {
		return "{}"
	}
	v, err := wirejson.ParsePart(wirejson.View(arguments), aroundInput)
	if err == nil && v.Kind() == wirejson.KindObject && len(unwrapUnparsed(v)) == len(v) { // unwrapUnparsed would not change v
		return arguments
	}
	in := wirejson.AppendString([]byte(`{"`+unparsedMember+`":{"raw":`), arguments)
	return string(fmt.Appendf(in, `,"len":%d}}`, len(arguments)))
}

// unwrapUnparsed returns the arguments of a call as the model wrote them. It takes them out of
// unparsedMember, if wrapUnparsed has put them there.
func unwrapUnparsed(input wirejson.Value) []byte {
	var in, raw wirejson.Value
	input.Pick(wirejson.Into(unparsedMember, &in))
	if in.Pick(wirejson.Into("raw", &raw)); raw.Kind() == wirejson.KindString {
		return raw.Bytes()
	}
	return input
}

// signaturePrefix starts every signature; the 1 is the version of the form. Then come the id of a reasoning
// item, a dot, and the encrypted content of the item, which only the provider can read. The client keeps
// the signature, so this server need not store the reasoning.
const signaturePrefix = "codex-1."

func makeSignature(id, encrypted string) string { return signaturePrefix + id + "." + encrypted }

// parseSignature returns the id and the encrypted content in a signature. ok is false if makeSignature did
// not make the signature.
func parseSignature(signature string) (id, encrypted string, ok bool) {
	rest, ours := strings.CutPrefix(signature, signaturePrefix)
	if !ours {
		return "", "", false
	}
	id, encrypted, ok = strings.Cut(rest, ".")
	return id, encrypted, ok && encrypted != ""
}

// readThinkingBlock reads a thinking block. It leaves out a block if makeSignature did not make its
// signature, for example a block of another provider.
func (h *history) readThinkingBlock(b *rawBlock) *field.Error {
	text, signature := b.thinking, b.signature
	f := cmp.Or(field.Optional(wirejson.KindString, text).In("thinking"), field.Optional(wirejson.KindString, signature).In("signature"))
	if f != nil || !signature.Given() {
		return f
	}
	id, encrypted, ok := parseSignature(signature.Text())
	if !ok {
		return nil
	}
	item := append([]byte(nil), `{"type":"reasoning",`...)
	if id != "" {
		item = append(wirejson.AppendString(append(item, `"id":`...), id), ',')
	}
	item = append(item, `"summary":[`...)
	if text.Given() && len(text.RawText()) > 0 {
		item = append(append(append(item, `{"type":"summary_text","text":`...), text...), '}')
	}
	item = append(wirejson.AppendString(append(item, `],"encrypted_content":`...), encrypted), '}')
	return h.add(prompt.Message{Role: prompt.RoleItem, Item: item, Size: len(b.value) + len(item)})
}
