package apiclient

import (
	"encoding/json"
	"fmt"

	"github.com/caddy-codex/caddy-codex/internal/test/ollamacheck"
)

// OllamaFailure is the code of all errors of Ollama's API, which have a text alone.
const OllamaFailure = "ollama"

// ollamaFinishes are the finish reasons of the done reasons.
var ollamaFinishes = map[string]string{"stop": "stop", "length": "length"}

// ollama reads an answer of Ollama's API, which must be whole.
func (a *Answer) ollama(body []byte, stream bool) error {
	read := ollamacheck.Whole
	if stream {
		read = func(body []byte, generate bool) (*ollamacheck.Answer, error) {
			return ollamacheck.Stream(string(body), generate)
		}
	}
	got, err := read(body, false)
	if err != nil {
		return err
	}
	a.Failed, a.Ended = got.Failure != "", true
	if a.Failed {
		a.Code = OllamaFailure
	}
	c := &a.Choices[0]
	c.Text, c.Reasoning, c.Finish, c.Opened = got.Text, got.Thinking, ollamaFinishes[got.Reason], true
	for _, call := range got.Calls {
		arguments, err := json.Marshal(call.Function.Arguments)
		if err != nil {
			return fmt.Errorf("the arguments of %s: %w", call.Function.Name, err)
		}
		c.Calls = append(c.Calls, Call{call.ID, call.Function.Name, string(arguments)})
	}
	if len(c.Calls) > 0 && c.Finish == "stop" { // the API has no reason of its own for calls
		c.Finish = "tool_calls"
	}
	return nil
}

func (a *Answer) ollamaError(body []byte) error {
	_, err := ollamacheck.Failure(body)
	if err == nil {
		a.Failed, a.Code = true, OllamaFailure
	}
	return err
}
