package main

import (
	"encoding/json"
	"fmt"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

func (c *client) messages() {
	id, stream := c.id(), c.r.IntN(2) == 0
	text, prompt := c.text(id, 2000)
	c.askMessages("message "+id, stream, said{Text: text, Finish: "stop"}, message("user", prompt))
}

func (c *client) messageTools() {
	id, stream := c.id(), c.r.IntN(2) == 0
	arguments := fmt.Sprintf(`{"query":"%s"}`, id)
	first := message("user", fmt.Sprintf("tool:localSearch %s; then; say:Found for %s.", arguments, id))
	got, ok := c.askMessages("message's call "+id, stream, said{
		Calls: []apiclient.Call{{Name: "localSearch", Arguments: arguments}}, Finish: "tool_calls",
	}, first)
	if !ok {
		return
	}
	call := got.Choices[0].Calls[0]
	use := fields{"type": "tool_use", "id": call.ID, "name": call.Name, "input": json.RawMessage(call.Arguments)}
	result := fields{"type": "tool_result", "tool_use_id": call.ID, "content": "a note"}
	c.askMessages("message's result "+id, stream, said{Text: "Found for " + id + ".", Finish: "stop"}, first,
		fields{"role": "assistant", "content": []fields{use}}, fields{"role": "user", "content": []fields{result}})
}

func (c *client) askMessages(what string, stream bool, want said, messages ...fields) (*apiclient.Answer, bool) {
	return c.ask(query{what: what, path: pathMessages, stream: stream, want: []said{want}, body: fields{
		"model": c.model, "max_tokens": 32_000, "stream": stream, "messages": messages,
		"tools": []fields{{"name": "localSearch", "input_schema": fields{"type": "object", "properties": fields{"query": fields{"type": "string"}}}}},
	}})
}

func (c *client) ollama() {
	id, stream := c.id(), c.r.IntN(2) == 0
	text, prompt := c.text(id, 2000)
	c.ask(query{
		what: "ollama " + id, path: pathOllama, stream: stream, want: []said{{Text: text, Finish: "stop"}},
		body: c.chatRequest(stream, message("user", prompt)),
	})
}
