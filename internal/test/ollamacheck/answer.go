// Package ollamacheck reads answers of Ollama's API as strictly as its strictest clients.
package ollamacheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Call is a call of a tool.
type Call struct {
	ID       string `json:"id"`
	Function struct {
		Index     *int                       `json:"index"`
		Name      string                     `json:"name"`
		Arguments map[string]json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// Object is a line of a stream, or an answer that is not streamed.
type Object struct {
	Model   string    `json:"model"`
	Created time.Time `json:"created_at"`
	Message *struct {
		Role     string  `json:"role"`
		Content  *string `json:"content"`
		Thinking string  `json:"thinking"`
		Calls    []Call  `json:"tool_calls"`
	} `json:"message"`
	Response *string `json:"response"`
	Thinking string  `json:"thinking"`
	Done     *bool   `json:"done"`
	Reason   string  `json:"done_reason"`

	Total       *int64  `json:"total_duration"`
	Load        *int64  `json:"load_duration"`
	Input       *int64  `json:"prompt_eval_count"`
	InputTime   *int64  `json:"prompt_eval_duration"`
	Output      *int64  `json:"eval_count"`
	OutputTime  *int64  `json:"eval_duration"`
	Error       *string `json:"-"`
	withoutTurn bool
}

// Answer is what a client has in the end.
type Answer struct {
	Model, Text, Thinking string
	Calls                 []Call
	Reason                string
	Input, Output         int64
	Failure               string // that ended a stream
	Lines                 int
}

// Stream reads a streamed answer. generate says that it is one of /api/generate.
func Stream(text string, generate bool) (*Answer, error) {
	a := new(Answer)
	rest, ended := strings.CutSuffix(text, "\n")
	if !ended {
		return a, fmt.Errorf("the last line has no end: %q", text)
	}
	done := false
	for line := range strings.SplitSeq(rest, "\n") {
		a.Lines++
		if done || a.Failure != "" {
			return a, fmt.Errorf("behind the end: %q", line)
		}
		o, err := read([]byte(line), generate)
		if err != nil {
			return a, fmt.Errorf("%w in %q", err, line)
		}
		if o.Error != nil {
			a.Failure = *o.Error
			continue
		}
		if err := a.add(o); err != nil {
			return a, fmt.Errorf("%w in %q", err, line)
		}
		done = *o.Done
	}
	if !done && a.Failure == "" {
		return a, fmt.Errorf("no last line in %q", text)
	}
	return a, nil
}

// Whole reads an answer that is not streamed.
func Whole(body []byte, generate bool) (*Answer, error) {
	a := new(Answer)
	o, err := read(body, generate)
	if err == nil && (o.Error != nil || !*o.Done) {
		err = fmt.Errorf("no whole answer: %s", body)
	}
	if err == nil {
		err = a.add(o)
	}
	return a, err
}

// Failure reads the text of an error.
func Failure(body []byte) (string, error) {
	o, err := read(body, false)
	if err == nil && o.Error == nil {
		err = fmt.Errorf("no error: %s", body)
	}
	if err != nil {
		return "", err
	}
	return *o.Error, nil
}

// read reads an object, in which nothing but an error may have the member error.
func read(text []byte, generate bool) (*Object, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	o := new(Object)
	if failure, failed := members["error"]; failed {
		if len(members) > 1 || json.Unmarshal(failure, &o.Error) != nil || o.Error == nil || *o.Error == "" {
			return nil, fmt.Errorf("an odd error")
		}
		return o, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(o); err != nil {
		return nil, err
	}
	switch {
	case o.Model == "" || o.Created.IsZero() || o.Done == nil:
		return nil, fmt.Errorf("no model, created_at or done")
	case generate && (o.Response == nil || o.Message != nil):
		return nil, fmt.Errorf("no response")
	case !generate && (o.Message == nil || o.Message.Content == nil || o.Message.Role != "assistant" || o.Response != nil || o.Thinking != ""):
		return nil, fmt.Errorf("no message of the assistant's with a content")
	}
	return o, o.checkEnd()
}

// checkEnd checks that the last object alone has counts and times.
func (o *Object) checkEnd() error {
	if (o.Reason != "") != *o.Done {
		return fmt.Errorf("done is %t, of the reason %q", *o.Done, o.Reason)
	}
	o.withoutTurn = o.Reason == "load" || o.Reason == "unload"
	for _, n := range []*int64{o.Total, o.Load, o.InputTime, o.OutputTime, o.Input, o.Output} {
		if (n != nil) != (*o.Done && !o.withoutTurn) {
			return fmt.Errorf("counts in the wrong place")
		}
	}
	if o.Total != nil && min(*o.Total, *o.Load, *o.InputTime, *o.OutputTime) < 1 {
		return fmt.Errorf("a duration of nothing")
	}
	return nil
}

// add adds an object to an answer.
func (a *Answer) add(o *Object) error {
	a.Model = o.Model
	if o.Message == nil {
		a.Text += *o.Response
		a.Thinking += o.Thinking
	} else {
		a.Text += *o.Message.Content
		a.Thinking += o.Message.Thinking
		for _, call := range o.Message.Calls {
			if call.ID == "" || call.Function.Name == "" || call.Function.Arguments == nil || call.Function.Index == nil || *call.Function.Index != len(a.Calls) {
				return fmt.Errorf("an odd call")
			}
			a.Calls = append(a.Calls, call)
		}
	}
	if a.Reason = o.Reason; o.Input != nil {
		a.Input, a.Output = *o.Input, *o.Output
	}
	return nil
}
