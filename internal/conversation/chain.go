package conversation

import (
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// Link is the history up to the end of an answer of the model.
type Link struct {
	// Hash names the history.
	Hash Hash
	// First is the index of the answer's first item in the history.
	First int
	// Items is how many items of the history it has. What follows is new to a
	// thread that holds it.
	Items int
	// Reasoned reports whether the history has reasoning of the answer.
	Reasoned bool
	// Calls are the ids of the calls that the answer ended with, in their order, as
	// the request has them. The results that follow name them.
	Calls []string
}

// Chain is the history of a request.
type Chain struct {
	// Links are the answers in it, in their order.
	Links []Link
	// Size is about how many bytes the history has.
	Size int

	state Hash // of all of it
	calls int  // made in it
}

// NewChain reads the history of a request: items of the Responses API, each a
// JSON object, and the user's input that ends it, which may be empty. The error is
// that the identity cannot be hashed.
func NewChain(id Identity, history []json.RawMessage, input []codexrpc.UserInput) (*Chain, error) {
	start, err := id.hash()
	if err != nil {
		return nil, err
	}
	r := reader{chain: &Chain{state: start}, ordinals: make(map[string]int)}
	for i, item := range history {
		r.chain.Size += len(item)
		r.item(i, gjson.ParseBytes(item))
	}
	r.endAnswer(len(history))
	r.input(input)
	return r.chain, nil
}

// After is the hash of the history with an answer behind it.
func (c *Chain) After(a *Answer) Hash {
	d := newDigest()
	a.digest(d, c.state, c.calls)
	return d.sum()
}

// reader goes through a history.
type reader struct {
	chain    *Chain
	ordinals map[string]int // of the calls, by their ids
	answer   *Answer        // what is being read of an answer; nil: nothing
	first    int            // index of its first item
	ids      []string       // of its calls
	reasoned bool           // there was reasoning since the last item that is no part of an answer
}

// The types of items that have a canonical form of their own.
const (
	typeMessage   = "message"
	typeReasoning = "reasoning"
	typeCall      = "function_call"
	typeResult    = "function_call_output"
)

// item reads the item at an index of the history.
func (r *reader) item(index int, item gjson.Result) {
	kind := item.Get("type").Str
	role := item.Get("role").Str
	switch {
	case kind == typeReasoning:
		r.reasoned = true
		return // clients may leave it out
	case kind == typeMessage && role == "assistant":
		r.begin(index)
		r.answer.Gap()
		for _, part := range item.Get("content").Array() {
			r.answer.Text(part.Get("text").Str)
		}
		return
	case kind == typeCall:
		r.begin(index)
		id := item.Get("call_id").Str
		r.ids = append(r.ids, id)
		r.answer.Call(item.Get("name").Str, item.Get("arguments").Str)
		return
	}
	r.endAnswer(index)
	r.reasoned = false
	d := r.next()
	switch kind {
	case typeMessage:
		d.field(role)
		for _, part := range item.Get("content").Array() {
			addPart(d, part)
		}
	case typeResult:
		d.field(typeResult)
		d.number(r.ordinals[item.Get("call_id").Str])
		addOutput(d, item.Get("output"))
	default:
		d.field("item")
		d.field(item.Raw)
	}
	r.chain.state = d.sum()
}

// begin begins an answer with the item at an index, unless one is being read.
func (r *reader) begin(index int) {
	if r.answer == nil {
		r.answer, r.first, r.ids = &Answer{}, index, nil
	}
}

// endAnswer ends the answer that is being read, before the item at an index.
func (r *reader) endAnswer(index int) {
	if r.answer == nil {
		return
	}
	d := newDigest()
	r.answer.digest(d, r.chain.state, r.chain.calls)
	for _, id := range r.ids {
		r.ordinals[id] = r.chain.calls
		r.chain.calls++
	}
	r.chain.state = d.sum()
	r.chain.Links = append(r.chain.Links, Link{
		Hash: r.chain.state, First: r.first, Items: index, Reasoned: r.reasoned, Calls: r.ids,
	})
	r.answer = nil
}

// input reads the input that ends the conversation: a message of the user's.
func (r *reader) input(input []codexrpc.UserInput) {
	if len(input) == 0 {
		return
	}
	d := r.next()
	d.field("user")
	for _, part := range input {
		r.chain.Size += len(part.Text) + len(part.URL)
		if part.Type == "image" {
			addImage(d, part.URL, part.Detail)
		} else {
			addText(d, part.Text)
		}
	}
	r.chain.state = d.sum()
}

// next begins the hash of the history with one message more.
func (r *reader) next() digest {
	d := newDigest()
	_, _ = d.Write(r.chain.state[:])
	return d
}

// addPart adds a part of a message or of a result.
func addPart(d digest, part gjson.Result) {
	if url := part.Get("image_url"); url.Exists() {
		addImage(d, url.Str, part.Get("detail").Str)
		return
	}
	if text := part.Get("text"); text.Exists() {
		addText(d, text.Str)
		return
	}
	d.field("part")
	d.field(part.Raw)
}

func addText(d digest, text string) {
	d.field("text")
	d.field(text)
}

func addImage(d digest, url, detail string) {
	d.field("image")
	d.field(url)
	d.field(strings.ToLower(detail))
}

// addOutput adds a result: a text, or parts.
func addOutput(d digest, output gjson.Result) {
	if !output.IsArray() {
		addText(d, output.Str)
		return
	}
	for _, part := range output.Array() {
		addPart(d, part)
	}
}
