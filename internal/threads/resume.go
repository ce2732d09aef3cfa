package threads

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// resumeTimeout bounds how long a kept thread may take to go on. Starting a fresh one
// is the way out.
const resumeTimeout = 10 * time.Second

// GoOn gives a kept thread what a request has that the thread does not hold yet, and
// starts its turn or lets a parked one go on. After an error the thread is of no use.
func (k *Kept) GoOn(ctx context.Context, plan *prompt.Plan, at conversation.Link) error {
	ctx, cancel := context.WithTimeout(ctx, resumeTimeout)
	defer cancel()
	if len(k.Waits) > 0 {
		return k.answerCalls(ctx, plan, at)
	}
	if err := k.Thread.NextTurn(); err != nil {
		return err
	}
	if more := plan.History[at.Items:]; len(more) > 0 {
		if err := k.Thread.InjectItems(ctx, more); err != nil {
			return err
		}
	}
	return k.Thread.StartTurn(ctx, plan.Turn)
}

// answerCalls gives a parked turn the results of its calls, and behind them the
// messages of the user that follow.
func (k *Kept) answerCalls(ctx context.Context, plan *prompt.Plan, at conversation.Link) error {
	if string(plan.Turn.OutputSchema) != k.Schema {
		return fmt.Errorf("%w: the answer is to have another schema", errOtherFollowUp)
	}
	results, messages, err := followUp(plan.History[at.Items:], at.Calls, k.Waits)
	if err != nil {
		return err
	}
	if len(plan.Turn.Input) > 0 {
		messages = append(messages, plan.Turn.Input)
	}
	if err := k.Thread.Parked(ctx, k.Waits); err != nil {
		return err
	}
	for _, message := range messages {
		if err := k.Thread.Steer(ctx, message); err != nil {
			return err
		}
	}
	return k.Thread.AnswerCalls(ctx, results)
}

// followUp reads the items behind the calls of an answer: the result of each call, and
// messages of the user. calls are the ids of the calls in the request, waits those of
// the app-server, in the same order.
func followUp(items []json.RawMessage, calls, waits []string) (results []codexrpc.ToolResult, messages [][]codexrpc.UserInput, err error) {
	if len(calls) != len(waits) {
		return nil, nil, errOtherFollowUp
	}
	answered := make(map[int]bool, len(calls))
	for _, raw := range items {
		item := gjson.ParseBytes(raw)
		switch kind := item.Get("type").Str; {
		case kind == "function_call_output" && messages == nil:
			at := slices.Index(calls, item.Get("call_id").Str)
			if at < 0 || answered[at] {
				return nil, nil, errOtherFollowUp
			}
			answered[at] = true
			parts := inputParts(item.Get("output"))
			if slices.ContainsFunc(parts, func(part codexrpc.UserInput) bool { return part.Detail != "" }) {
				return nil, nil, errOtherFollowUp // a result has no place for that
			}
			results = append(results, codexrpc.ToolResult{CallID: waits[at], Parts: parts})
		case kind == "message" && item.Get("role").Str == "user":
			messages = append(messages, inputParts(item.Get("content")))
		default:
			return nil, nil, errOtherFollowUp
		}
	}
	if len(answered) != len(calls) {
		return nil, nil, errOtherFollowUp
	}
	return results, messages, nil
}

// inputParts reads the content of a message, or the output of a call: a text or parts.
func inputParts(content gjson.Result) []codexrpc.UserInput {
	if !content.IsArray() {
		return []codexrpc.UserInput{{Type: "text", Text: content.Str}}
	}
	parts := content.Array()
	input := make([]codexrpc.UserInput, len(parts))
	for i, part := range parts {
		if url := part.Get("image_url"); url.Exists() {
			input[i] = codexrpc.UserInput{Type: "image", URL: url.Str, Detail: part.Get("detail").Str}
		} else {
			input[i] = codexrpc.UserInput{Type: "text", Text: part.Get("text").Str}
		}
	}
	return input
}
