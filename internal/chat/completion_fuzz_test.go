package chat

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/plancheck"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// FuzzDecodeCompletion sends any body. What is refused must be refused in OpenAI's shape; what is
// accepted must give a plan that Codex can read, and an answer that echoes the prompt where
// that is wanted.
func FuzzDecodeCompletion(f *testing.F) {
	f.Add([]byte(`{"model":"m","prompt":["Once upon"],"echo":true,"n":2,"best_of":2,"stop":["END"],"max_tokens":7,"stream":true,"stream_options":{"include_usage":true}}`))
	f.Add([]byte(`{"model":"m","prompt":"a","suffix":"b","logprobs":0,"temperature":2}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		given := string(body)
		r, apiErr := DecodeCompletion(body)
		if string(body) != given {
			t.Fatal("the body was changed")
		}
		if apiErr != nil {
			if apiErr.Status != http.StatusBadRequest || apiErr.Type != apierror.TypeInvalidRequest || apiErr.Message == "" || !json.Valid(apiErr.Body()) {
				t.Fatalf("refused by %+v", apiErr)
			}
			return
		}
		p, apiErr := r.Plan(prompt.Options{})
		if apiErr != nil || p.Thread.Model == "" || p.Choices < 1 || p.Choices > 8 {
			t.Fatalf("%+v %v", p, apiErr)
		}
		plancheck.Check(t, p)
		checkEcho(t, CompletionMeta{ID: "cmpl-1", Settings: prompt.Settings{Model: "m", Choices: 1}, Echo: r.Echo()})
	})
}

// checkEcho answers with a text, streamed and whole.
func checkEcho(t *testing.T, meta CompletionMeta) {
	t.Helper()
	whole, streamed := NewCompletionBody(meta), ""
	stream := NewCompletionStream(meta, func(data []byte) error {
		streamed += firstText(t, data)
		return nil
	})
	for _, out := range []turn.Output{{Kind: turn.OutputText, Text: "x"}, {Kind: turn.OutputFinish, End: &turn.End{Finish: turn.FinishStop}}} {
		whole.Add(0, out)
		if err := stream.Write(0, out); err != nil {
			t.Fatal(err)
		}
	}
	text := firstText(t, whole.JSON())
	if text != streamed || !strings.HasSuffix(text, "x") || (text == "x") != (meta.Echo == "") {
		t.Fatalf("echo %q: whole %q, streamed %q", meta.Echo, text, streamed)
	}
}

// firstText returns the text of the first choice of a completion, if there is one.
func firstText(t *testing.T, data []byte) string {
	t.Helper()
	var completion struct{ Choices []struct{ Text string } }
	if err := json.Unmarshal(data, &completion); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	if len(completion.Choices) == 0 {
		return ""
	}
	return completion.Choices[0].Text
}
