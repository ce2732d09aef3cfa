package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/sse"
)

// Answer is the answer to one request.
type Answer struct {
	First, Whole time.Duration // from the request to the first text, and to the end
	Chunks       int           // with text
	Text         string
}

// Send sends a body as JSON, with a key if there is one, and passes the body of a successful answer to read.
func Send(ctx context.Context, method, url, key string, body any, read func(io.Reader) error) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body) // the status says enough
		return fmt.Errorf("%s %s is answered with %s %s", method, url, response.Status, text)
	}
	return read(response.Body)
}

// Stream posts a request and reads its stream to the end. textOf returns an event's text.
func Stream(ctx context.Context, url string, body any, textOf func(data string) (string, error)) (a Answer, err error) {
	start := time.Now()
	var whole strings.Builder
	err = Send(ctx, http.MethodPost, url, "", body, func(stream io.Reader) error {
		for event, err := range sse.Read(stream) {
			if err != nil {
				return fmt.Errorf("a stream ended early: %w", err)
			}
			text, err := textOf(event.Data)
			if err != nil {
				return err
			}
			if text == "" {
				continue
			}
			if a.Chunks++; a.Chunks == 1 {
				a.First = time.Since(start)
			}
			whole.WriteString(text)
		}
		return nil
	})
	a.Whole, a.Text = time.Since(start), whole.String()
	return a, err
}

// Chat asks a site for a streamed chat completion. The texts are those of the conversation, by
// the user and the assistant in turn. The user's is the last.
func (s *Site) Chat(ctx context.Context, texts ...string) (Answer, error) {
	messages := make([]map[string]string, len(texts))
	for i, text := range texts {
		messages[i] = map[string]string{"role": [...]string{"user", "assistant"}[i%2], "content": text}
	}
	return Stream(ctx, s.URL+"/v1/chat/completions", map[string]any{
		"model": "gpt-5", "stream": true, "messages": messages,
	}, func(data string) (string, error) {
		var chunk struct {
			Choices []struct {
				Delta struct{ Content string }
			}
		}
		if data == "[DONE]" {
			return "", nil
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil || len(chunk.Choices) == 0 {
			return "", err
		}
		return chunk.Choices[0].Delta.Content, nil
	})
}

// Percentile returns the time within which so many of 100 are; 0: there are none. It sorts times.
func Percentile(times []time.Duration, percent int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(len(times)*percent/100, len(times)-1)]
}

// MS returns a time in milliseconds.
func MS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
