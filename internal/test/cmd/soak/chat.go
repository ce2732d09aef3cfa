package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

const (
	pathChat      = "/v1/chat/completions"
	pathResponses = "/v1/responses"
	pathMessages  = "/v1/messages"
	pathOllama    = "/api/chat"
)

// fields are the members of a JSON object.
type fields map[string]any

func encode(body any) string {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // has strings, numbers and lists only
	}
	return string(text)
}

// text returns a text that begins with id, and directives that make the model say it.
func (c *client) text(id string, bytes int) (text, prompt string) {
	words := []string{"word", "Grüße", "你好", "👋🏽", "a < b && c", `"quoted"`, "line\nline", "<use_tools>", "\u00a0"}
	var b strings.Builder
	b.WriteString(id)
	for size := c.r.IntN(bytes + 1); b.Len() < size; {
		b.WriteString(" " + words[c.r.IntN(len(words))])
	}
	b.WriteString(".")
	chunk := 1 + c.r.IntN(64)
	settings := fmt.Sprintf("chunk=%d; ", chunk)
	if pieces := b.Len()/chunk + 1; c.r.IntN(2) == 0 {
		settings += fmt.Sprintf("delay=%s; ", min(20*time.Millisecond, time.Second/time.Duration(pieces)))
	}
	return b.String(), settings + "verbatim:" + b.String()
}

func (c *client) chatRequest(stream bool, messages ...fields) fields {
	return fields{"model": c.model, "stream": stream, "messages": messages}
}

func message(role, text string) fields { return fields{"role": role, "content": text} }

func (c *client) chat() {
	id, stream := c.id(), c.r.IntN(2) == 0
	text, prompt := c.text(id, 3000)
	c.ask(query{
		what: "chat " + id, path: pathChat, stream: stream, body: c.chatRequest(stream, message("user", prompt)),
		want: []said{{Text: text, Finish: "stop"}},
	})
}

func (c *client) choices() {
	id, stream := c.id(), c.r.IntN(2) == 0
	text, prompt := c.text(id, 300)
	body := c.chatRequest(stream, message("user", prompt))
	body["n"] = 2
	one := said{Text: text, Finish: "stop"}
	c.ask(query{what: "choices " + id, path: pathChat, stream: stream, body: body, want: []said{one, one}})
}

// slowReader requests a long text and reads it slowly.
func (c *client) slowReader() {
	id := c.id()
	text, _ := c.text(id, 200_000)
	prompt := "chunk=2000; verbatim:" + text
	c.ask(query{
		what: "slow reader " + id, path: pathChat, stream: true, slow: true, body: c.chatRequest(true, message("user", prompt)),
		want: []said{{Text: text, Finish: "stop"}},
	})
}

var searchTool = fields{"type": "function", "function": fields{
	"name": "localSearch", "parameters": fields{"type": "object", "properties": fields{"query": fields{"type": "string"}}},
}}

// tools requests calls, which sometimes share an id, and sends their results.
func (c *client) tools() {
	id, stream := c.id(), c.r.IntN(2) == 0
	n := 1 + c.r.IntN(3)
	prompt := fmt.Sprintf(`tool:%d localSearch {"query":"%s %%d"}; then; say:Found for %s.`, n, id, id)
	if c.r.IntN(3) == 0 {
		prompt = "callid=call_" + id + "; " + prompt
	}
	want := said{Finish: "tool_calls"}
	for i := range n {
		want.Calls = append(want.Calls, apiclient.Call{Name: "localSearch", Arguments: fmt.Sprintf(`{"query":"%s %d"}`, id, i+1)})
	}
	ask := func(what string, want said, messages ...fields) (*apiclient.Answer, bool) {
		body := c.chatRequest(stream, messages...)
		body["tools"] = []fields{searchTool}
		return c.ask(query{what: what + id, path: pathChat, stream: stream, body: body, want: []said{want}})
	}
	first := message("user", prompt)
	got, ok := ask("tools ", want, first)
	if !ok {
		return
	}
	assistant := fields{"role": "assistant", "content": nil}
	messages := []fields{first, assistant}
	var calls []fields
	for i, call := range got.Choices[0].Calls {
		calls = append(calls, fields{"id": call.ID, "type": "function", "function": fields{"name": call.Name, "arguments": call.Arguments}})
		messages = append(messages, fields{"role": "tool", "tool_call_id": call.ID, "content": fmt.Sprintf("result %d", i)})
	}
	assistant["tool_calls"] = calls
	ask("results ", said{Text: "Found for " + id + ".", Finish: "stop"}, messages...)
}

// blocks requests textual calls as an Obsidian client does, sometimes followed by an unclosed one.
func (c *client) blocks() {
	id, stream := c.id(), c.r.IntN(2) == 0
	want := said{Finish: "tool_calls", Text: id + ": "}
	for i := range 1 + c.r.IntN(3) {
		q := fmt.Sprintf("%s & <%d>", id, i)
		want.Text += "<use_tool>\n<name>localSearch</name>\n<query>" + q + "</query>\n</use_tool>"
		want.Calls = append(want.Calls, apiclient.Call{Name: "localSearch", Arguments: `{"query":"` + q + `"}`})
	}
	if c.r.IntN(3) == 0 {
		want.Text += " and <use_tool>\n<name>readNote</name>\n<notePath>" + id
	}
	prompt := fmt.Sprintf("chunk=%d; verbatim:%s", 1+c.r.IntN(30), want.Text)
	c.ask(query{
		what: "blocks " + id, path: pathChat, stream: stream, want: []said{want},
		body: c.chatRequest(stream, message("system", "Call a tool as <use_tool> block."), message("user", prompt)),
	})
}
