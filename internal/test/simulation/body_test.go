package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// badBodies names the kinds of invalid bodies.
var badBodies = []string{"no JSON", "not an object", "deep", "cut", "too large", "no messages", "empty", "invalid UTF-8"}

// historyOf returns the messages before the prompt, by the token. Half of the requests have none.
func historyOf(token string) (question, answer string) {
	random := randomOf(token + ".history")
	if random.IntN(2) == 0 {
		return "", ""
	}
	return text(token+".question", 1+random.IntN(300)), text(token+".answer", 1+random.IntN(300))
}

// history returns the history as the app-server gets it.
func history(token string) string {
	question, answer := historyOf(token)
	if question == "" {
		return ""
	}
	return question + "\x00" + answer + "\x00"
}

// body returns the body of the request. previous is the id of the response that it follows, if any.
func (r *sending) body(previous string) []byte {
	switch r.Bad {
	case "no JSON":
		return []byte(`{"model":"m","messages":[{]}`)
	case "not an object":
		return []byte(`[1,2]`)
	case "deep":
		return []byte(`{"model":"m","messages":` + strings.Repeat(`[`, 30_000))
	case "too large":
		return []byte(`{"model":"m","messages":"` + strings.Repeat(`x`, 65<<10) + `"}`)
	case "no messages":
		return []byte(`{"model":"m"}`)
	case "empty":
		return nil
	}
	body := r.raw
	if body == nil {
		body = r.goodBody(previous)
	}
	switch r.Bad {
	case "cut":
		return body[:len(body)/2]
	case "invalid UTF-8":
		return append([]byte("\xff\xfe"), body...)
	}
	return body
}

func (r *sending) goodBody(previous string) []byte {
	body := map[string]any{"model": cmp.Or(r.Model, plainModel), "stream": r.Stream}
	var tools []any
	for _, name := range toolNames {
		schema := map[string]any{"type": "object"}
		switch r.API {
		case apiclient.Responses:
			tools = append(tools, map[string]any{"type": "function", "name": name, "description": "d", "parameters": schema})
		case apiclient.Messages:
			tools = append(tools, map[string]any{"name": name, "description": "d", "input_schema": schema})
		default:
			tools = append(tools, map[string]any{"type": "function", "function": map[string]any{"name": name, "description": "d", "parameters": schema}})
		}
	}
	if r.tools {
		body["tools"] = tools
	}
	switch r.API {
	case apiclient.Responses:
		body["input"] = openAIMessages(r.messages)
		if previous != "" {
			body["previous_response_id"] = previous
		}
	case apiclient.Messages:
		body["messages"], body["max_tokens"] = anthropicMessages(r.messages, randomOf(r.Token+".forms")), 1<<20
		if r.Thinking {
			body["thinking"] = map[string]any{"type": "adaptive"}
		}
	default:
		body["messages"] = openAIMessages(r.messages)
		body["n"] = r.Choices
		if r.Stream && r.Usage {
			body["stream_options"] = map[string]any{"include_usage": true}
		}
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(err) // has texts and numbers only
	}
	return encoded
}

// stuckFor is how long a stuck body waits, which is longer than any server waits.
const stuckFor = 5 * time.Minute

// bodyReader reads a body at the client's speed.
type bodyReader struct {
	ctx   context.Context
	rest  []byte
	piece int
	pause time.Duration
	stuck bool // the body never ends

	closed chan struct{}
	once   sync.Once
}

func (r *request) reader(ctx context.Context, body []byte) *bodyReader {
	b := &bodyReader{ctx: ctx, rest: body, piece: len(body) + 1, pause: r.Trickle, stuck: r.Stuck, closed: make(chan struct{})}
	if r.Trickle > 0 {
		b.piece = 1 + len(body)/20
	}
	if r.Stuck {
		b.rest = body[:len(body)*2/3]
	}
	return b
}

// Read returns the next piece after a pause.
func (b *bodyReader) Read(p []byte) (int, error) {
	if len(b.rest) == 0 && b.stuck {
		select {
		case <-b.ctx.Done():
		case <-b.closed:
		case <-time.After(stuckFor): // net/http's client may wait for the body after the answer
		}
		return 0, io.ErrClosedPipe
	}
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	if b.pause > 0 {
		time.Sleep(b.pause)
	}
	n := copy(p[:min(len(p), b.piece)], b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close ends a Read in progress.
func (b *bodyReader) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}
