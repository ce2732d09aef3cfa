package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// responses requests a text by the Responses API without storing it.
func (c *client) responses() {
	id, stream := c.id(), c.r.IntN(2) == 0
	text, prompt := c.text(id, 2000)
	c.ask(query{
		what: "response " + id, path: pathResponses, stream: stream,
		body: fields{"model": c.model, "stream": stream, "store": false, "input": prompt},
		want: []said{{Text: text, Finish: "stop"}},
	})
}

// chain requests a call, goes on with its result and with a question, and checks what is stored.
func (c *client) chain() {
	id := c.id()
	tools := []fields{{"type": "function", "name": "localSearch", "parameters": fields{"type": "object"}}}
	ask := func(what, previous string, input any, want said) (*apiclient.Answer, bool) {
		stream := c.r.IntN(2) == 0
		body := fields{"model": c.model, "stream": stream, "input": input, "tools": tools}
		if previous != "" {
			body["previous_response_id"] = previous
		}
		return c.ask(query{what: what + id, path: pathResponses, stream: stream, body: body, want: []said{want}})
	}
	first, ok := ask("chain ", "", fmt.Sprintf(`tool:localSearch {"query":"%s"}; then; say:Found for %s.`, id, id),
		said{Calls: []apiclient.Call{{Name: "localSearch", Arguments: fmt.Sprintf(`{"query":"%s"}`, id)}}, Finish: "tool_calls"})
	if !ok {
		return
	}
	output := []fields{{"type": "function_call_output", "call_id": first.Choices[0].Calls[0].ID, "output": "a note"}}
	second, ok := ask("chain, the result ", first.ID, output, said{Text: "Found for " + id + ".", Finish: "stop"})
	if !ok {
		return
	}
	text, prompt := c.text(id, 500)
	third, ok := ask("chain, the next question ", second.ID, prompt, said{Text: text, Finish: "stop"})
	if !ok {
		return
	}
	c.checkKept(third.ID, text)
}

// checkKept reads a stored response as its user and as another, and deletes it.
func (c *client) checkKept(id, text string) {
	status, body := c.about(http.MethodGet, id)
	if kept, err := apiclient.Read(body, apiclient.Responses, false, 1); status != http.StatusOK || err != nil || kept.Choices[0].Text != text {
		c.counts.fault(fmt.Sprintf("%s is kept as %d %.500s, not with %q", id, status, body, text))
		return
	}
	user := c.user
	c.user = users[(c.number+1)%len(users)]
	if status, body := c.about(http.MethodGet, id); status != http.StatusNotFound {
		c.counts.fault(fmt.Sprintf("%s is another user's: %d %.500s", id, status, body))
	}
	c.user = user
	if status, body := c.about(http.MethodDelete, id); status != http.StatusOK {
		c.counts.fault(fmt.Sprintf("deleting %s: %d %.500s", id, status, body))
	}
}

// about sends a request about a stored response. The status is 0 if there was no answer.
func (c *client) about(method, id string) (status int, body []byte) {
	status, body = c.exchange(method, pathResponses+"/"+id, "")
	if status != 0 {
		c.counts.add(func(counts *counts) { counts.whole++ })
	}
	return status, bytes.TrimSpace(body)
}

// exchange sends a request and reads the whole answer. The status is 0 if there was none.
func (c *client) exchange(method, path, request string) (status int, body []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
	defer cancel()
	c.counts.add(func(counts *counts) { counts.asked++ })
	response, err := c.send(ctx, method, path, request, nil)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return response.StatusCode, body
}
