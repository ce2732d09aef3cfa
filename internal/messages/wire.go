package messages

import (
	"encoding/json"
	"strconv"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Meta is what the forms of an answer have in common.
type Meta struct {
	ID          string // of the message, for example "msg_…"
	Model       string // as the client asked for it
	Thinking    Thinking
	Deferred    string // the function that stands for deferred tools; empty: none does
	CallsInText bool   // calls are part of the text
	Priority    bool   // the provider was asked for priority
	InputTokens int64  // about how many the input has, for the begin of a stream
}

// Meta returns the meta of the answer with an id.
func (r *Request) Meta(id string) Meta {
	return Meta{
		ID: id, Model: r.Model, Thinking: r.Thinking, Deferred: r.deferred.function,
		Priority: r.ServiceTier() == "priority", InputTokens: int64(r.GuessTokens()),
	}
}

// append appends a Message with a content, which is a list of blocks as JSON.
func (m *Meta) append(to, content []byte, end ending, u usage) []byte {
	to = wirejson.AppendString(append(to, `{"id":`...), m.ID)
	to = wirejson.AppendString(append(to, `,"type":"message","role":"assistant","model":`...), m.Model)
	to = append(append(append(to, `,"content":`...), content...), ',')
	to = append(end.append(to), `,"container":null,"usage":`...)
	return append(u.append(to), '}')
}

var null = json.RawMessage("null")

// usage is a Usage. The three inputs are disjoint.
type usage struct {
	Input, CacheWrite, CacheRead, Output int64

	Thinking int64 // of the output
	Searches int   // of the web
	Tier     string
	// Estimated is not Anthropic's: a part of the tokens was counted here, since the response
	// was interrupted before its usage came.
	Estimated bool
}

func (u *usage) append(to []byte) []byte {
	to = strconv.AppendInt(append(to, `{"input_tokens":`...), u.Input, 10)
	to = strconv.AppendInt(append(to, `,"cache_creation_input_tokens":`...), u.CacheWrite, 10)
	to = strconv.AppendInt(append(to, `,"cache_read_input_tokens":`...), u.CacheRead, 10)
	to = strconv.AppendInt(append(to, `,"output_tokens":`...), u.Output, 10)
	to = strconv.AppendInt(append(to, `,"output_tokens_details":{"thinking_tokens":`...), u.Thinking, 10)
	if u.Searches > 0 {
		to = strconv.AppendInt(append(to, `},"server_tool_use":{"web_search_requests":`...), int64(u.Searches), 10)
	}
	to = append(append(append(to, `},"service_tier":"`...), u.Tier...), '"')
	if u.Estimated {
		to = append(to, `,"estimated":true`...)
	}
	return append(to, '}')
}

// usage returns the usage of a turn that has ended and made this number of web searches.
func (m *Meta) usage(u codexrpc.Usage, estimated bool, searches int) usage {
	if estimated && u.InputTokens == 0 { // clients compact a conversation when it is large
		u.InputTokens = m.InputTokens
	}
	return usage{
		Input:      max(0, u.InputTokens-u.CachedInputTokens-u.CacheWriteInputTokens),
		CacheWrite: u.CacheWriteInputTokens, CacheRead: u.CachedInputTokens,
		Output: u.OutputTokens, Thinking: u.ReasoningOutputTokens,
		Searches: searches, Tier: m.tier(), Estimated: estimated,
	}
}

func (m *Meta) tier() string {
	if m.Priority {
		return "priority"
	}
	return "standard"
}

// ending is how an answer has ended. The zero ending is none.
type ending struct {
	finish   turn.FinishReason
	sequence string // a stop sequence
}

// stopReasons are the stop_reasons of turns.
var stopReasons = map[turn.FinishReason]string{
	turn.FinishStop: "end_turn", turn.FinishLength: "max_tokens", turn.FinishToolCalls: "tool_use", turn.FinishContentFilter: "refusal",
}

// append appends the members of a message that say how it has ended.
func (e *ending) append(to []byte) []byte {
	reason, refused := stopReasons[e.finish], e.finish == turn.FinishContentFilter
	switch {
	case e.sequence != "":
		to = wirejson.AppendString(append(to, `"stop_reason":"stop_sequence","stop_sequence":`...), e.sequence)
	case reason == "":
		to = append(to, `"stop_reason":null,"stop_sequence":null`...)
	default:
		to = append(append(append(to, `"stop_reason":"`...), reason...), `","stop_sequence":null`...)
	}
	if refused {
		return append(to, `,"stop_details":{"type":"refusal","category":null,"explanation":null}`...)
	}
	return append(to, `,"stop_details":null`...)
}

// block is a ContentBlock. The members that its type has are not nil.
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
	Content   []searchResult  `json:"content,omitzero"`
}

// The types of blocks.
const (
	typeText         = "text"
	typeThinking     = "thinking"
	typeToolUse      = "tool_use"
	typeSearch       = "server_tool_use"
	typeSearchResult = "web_search_tool_result"
)

// searchResult is a WebSearchResultBlock.
type searchResult struct {
	Type      string          `json:"type"` // web_search_result
	URL       string          `json:"url"`
	Title     string          `json:"title"`
	Encrypted string          `json:"encrypted_content"` // of the page; always empty
	PageAge   json.RawMessage `json:"page_age"`
}

// citation is a CitationsWebSearchResultLocation.
type citation struct {
	Type      string `json:"type"` // web_search_result_location
	URL       string `json:"url"`
	Title     string `json:"title"`
	CitedText string `json:"cited_text"`
	Encrypted string `json:"encrypted_index"` // always empty
}

// citations returns the citations in the annotations of a message.
func citations(annotations string) (all []citation) {
	var given []struct{ Type, URL, Title string }
	_ = json.Unmarshal([]byte(annotations), &given) // keeps what it can read
	for _, g := range given {
		if g.Type == "url_citation" {
			all = append(all, citation{Type: "web_search_result_location", URL: g.URL, Title: g.Title})
		}
	}
	return all
}

// unparsed is the member in which Claude Code keeps the input of a call that is no JSON object.
// Such input has the same form here, since every client can read an object.
const unparsed = "__unparsedToolInput"

type unparsedInput struct {
	Input struct {
		Raw    string `json:"raw"`
		Length int    `json:"len"`
	} `json:"__unparsedToolInput"`
}

// readable returns the input of a call as a JSON object.
func readable(arguments string) string {
	if arguments == "" {
		return "{}"
	}
	v, err := wirejson.Parse(wirejson.View(arguments))
	if err == nil && v.Kind() == wirejson.KindObject && len(unreadable(v)) == len(v) { // not in that form itself
		return arguments
	}
	var in unparsedInput
	in.Input.Raw, in.Input.Length = arguments, len(arguments)
	return string(wirejson.Append(nil, in))
}

// unreadable returns what the model has written as the input of a call: it reverses readable.
func unreadable(input wirejson.Value) []byte {
	var in, raw wirejson.Value
	if input.Pick(wirejson.Into(unparsed, &in)); in.Kind() == wirejson.KindObject {
		if in.Pick(wirejson.Into("raw", &raw)); raw.Kind() == wirejson.KindString {
			return raw.Bytes()
		}
	}
	return input
}
