package conversation

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Link identifies the history of a conversation up to the end of one answer of the model.
type Link struct {
	// Hash is the hash of this history.
	Hash Hash
	// Items is how many items the history has up to the end of the answer. If a thread has this
	// history, only the request's later items are new to the thread.
	Items int
	// Calls are the ids that the request gives to the answer's calls, in order. The results of the
	// calls follow the answer, and refer to these ids.
	Calls []string
}

// Chain has the hashes of a request's history: one hash for each answer in the history.
type Chain struct {
	// Links has a link for each answer in the history, in order.
	Links []Link
	// Size is the approximate size of the history in bytes.
	Size int
	// HasReasoning reports whether the history has reasoning of the model.
	HasReasoning bool

	state Hash // hash of the whole history
	calls int  // number of calls in the history
}

// NewChain hashes the history of a request: items of the Responses API, each a JSON object, and
// then input, the user's message, perhaps empty. It fails if id cannot be encoded as JSON.
func NewChain(id Identity, history []json.RawMessage, input []codexrpc.UserInput) (*Chain, error) {
	start, err := id.hash()
	if err != nil {
		return nil, err
	}
	r := chainReader{chain: &Chain{state: start}}
	for i, item := range history {
		r.chain.Size += len(item)
		r.readItem(i, wirejson.Value(item))
	}
	r.endAnswer(len(history))
	r.readInput(input)
	return r.chain, nil
}

// After returns the hash of the whole history followed by the answer a.
func (c *Chain) After(a *Answer) Hash {
	d := newDigest()
	a.digest(d, c.state, c.calls)
	return d.sum()
}

// chainReader reads the items of a history one after the other, and computes the chain.
type chainReader struct {
	chain    *Chain
	ordinals map[string]int // the position of each call among all calls of the history, by the id of the call
	answer   *Answer        // the answer that is being read; nil: none
	callIDs  []string       // the ids of the calls of answer
	scratch  []byte         // the buffer for the method bytes
}

// The types of items that have a canonical form of their own.
const (
	typeMessage   = "message"
	typeReasoning = "reasoning"
	typeCall      = "function_call"
	typeResult    = "function_call_output"
)

// readItem reads one item. index is its position in the history.
func (r *chainReader) readItem(index int, item wirejson.Value) {
	var kind, role, content, id, name, arguments, output wirejson.Value
	item.Pick(
		wirejson.Into("type", &kind), wirejson.Into("role", &role), wirejson.Into("content", &content),
		wirejson.Into("call_id", &id), wirejson.Into("name", &name), wirejson.Into("arguments", &arguments),
		wirejson.Into("output", &output),
	)
	switch {
	case kind.Is(typeReasoning):
		r.chain.HasReasoning = true
		return // reasoning is not hashed, since clients may leave it out
	case kind.Is(typeMessage) && role.Is("assistant"):
		r.beginAnswer()
		r.answer.Gap()
		for p := range parts(content) {
			r.answer.add(r.bytes(p.text))
		}
		return
	case kind.Is(typeCall):
		r.beginAnswer()
		r.callIDs = append(r.callIDs, textOf(id))
		r.answer.Call(textOf(name), textOf(arguments))
		return
	}
	r.endAnswer(index)
	d := r.nextDigest()
	switch {
	case kind.Is(typeMessage):
		d.field(textOf(role))
		r.addParts(d, content)
	case kind.Is(typeResult):
		d.field(typeResult)
		d.number(r.ordinals[textOf(id)])
		if output.Kind() == wirejson.KindArray {
			r.addParts(d, output)
		} else {
			addText(d, r.bytes(output))
		}
	default:
		d.field("item")
		d.bytes(item)
	}
	r.chain.state = d.sum()
}

func textOf(v wirejson.Value) string {
	if v.Kind() != wirejson.KindString {
		return ""
	}
	return v.Text()
}

// bytes returns the text of a JSON string, or nil for any other value. The result is valid until
// the next call of this method, since all calls use the same buffer.
func (r *chainReader) bytes(v wirejson.Value) []byte {
	if v.Kind() != wirejson.KindString {
		return nil
	}
	if cap(r.scratch) < len(v) {
		r.scratch = make([]byte, 0, len(v))
	}
	r.scratch = v.AppendText(r.scratch[:0])
	return r.scratch
}

type part struct{ raw, text, url, detail wirejson.Value }

// parts iterates over the content of a message or a result. Only lists have parts.
func parts(content wirejson.Value) iter.Seq[part] {
	return func(yield func(part) bool) {
		if content.Kind() != wirejson.KindArray {
			return
		}
		c := wirejson.NewCursor(content)
		for c.Enter(); c.Next(); {
			var p part
			p.raw = c.Pick(wirejson.Into("text", &p.text), wirejson.Into("image_url", &p.url), wirejson.Into("detail", &p.detail))
			if !yield(p) {
				return
			}
		}
	}
}

// beginAnswer begins an answer, unless an answer has begun: the next item then belongs to that answer.
func (r *chainReader) beginAnswer() {
	if r.answer == nil {
		r.answer, r.callIDs = &Answer{}, nil
	}
}

// endAnswer ends the answer, if any, and adds its Link. index is the index of the item after the answer.
func (r *chainReader) endAnswer(index int) {
	if r.answer == nil {
		return
	}
	d := newDigest()
	r.answer.digest(d, r.chain.state, r.chain.calls)
	r.answer.release()
	if r.ordinals == nil && len(r.callIDs) > 0 {
		r.ordinals = make(map[string]int)
	}
	for _, id := range r.callIDs {
		r.ordinals[id] = r.chain.calls
		r.chain.calls++
	}
	r.chain.state = d.sum()
	r.chain.Links = append(r.chain.Links, Link{Hash: r.chain.state, Items: index, Calls: r.callIDs})
	r.answer = nil
}

func (r *chainReader) readInput(input []codexrpc.UserInput) {
	if len(input) == 0 {
		return
	}
	d := r.nextDigest()
	d.field("user")
	for _, part := range input {
		r.chain.Size += len(part.Text) + len(part.URL)
		if part.Type == "image" {
			addImage(d, wirejson.View(part.URL), part.Detail)
		} else {
			addText(d, wirejson.View(part.Text))
		}
	}
	r.chain.state = d.sum()
}

// nextDigest returns a digest with the hash of the history so far, for the next item.
func (r *chainReader) nextDigest() *digest {
	d := newDigest()
	d.hash(r.chain.state)
	return d
}

func (r *chainReader) addParts(d *digest, content wirejson.Value) {
	for p := range parts(content) {
		switch {
		case p.url != nil:
			addImage(d, r.bytes(p.url), textOf(p.detail))
		case p.text != nil:
			addText(d, r.bytes(p.text))
		default:
			d.field("part")
			d.bytes(p.raw)
		}
	}
}

func addText(d *digest, text []byte) {
	d.field("text")
	d.bytes(text)
}

func addImage(d *digest, url []byte, detail string) {
	d.field("image")
	d.bytes(url)
	d.field(strings.ToLower(detail))
}

// Identity is what all requests of a conversation have in common, besides the messages. Requests
// with different Identities belong to different conversations.
type Identity struct {
	// Site and User identify the owner. The same User at another Site is another owner.
	Site, User string
	// Thread has the parameters of thread/start: model, instructions, tools and configuration.
	Thread codexrpc.ThreadStartParams
	// EffortMayVary is true if each turn of the conversation may have its own reasoning effort.
	// Even then, requests with an effort and requests without one belong to different
	// conversations, because a thread that has an effort cannot return to the model's default.
	EffortMayVary bool
}

// hash returns the hash with which a [Chain] begins. It fails if the parameters cannot be encoded.
func (id *Identity) hash() (Hash, error) {
	// Settings that all threads share do not distinguish them, and are usually the longest.
	params := id.Thread
	params.Config.Fixed = ""
	if id.EffortMayVary && params.Config.Effort() != "" {
		params.Config.Own = maps.Clone(params.Config.Own)
		params.Config.Own[codexrpc.EffortSetting] = true // in place of the effort, whichever it is
	}
	d := newDigest()
	d.field(id.Site)
	d.field(id.User)
	if err := d.threadParams(&params); err != nil {
		return Hash{}, fmt.Errorf("writing the parameters of a thread: %w", err)
	}
	return d.sum(), nil
}
