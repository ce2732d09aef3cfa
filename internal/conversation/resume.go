package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// resumeTimeout bounds how long a kept thread may take to go on. Starting a fresh one
// is the way out.
const resumeTimeout = 10 * time.Second

// goOn gives a kept thread what a request has that the thread does not hold yet, and
// starts its turn or lets a parked one go on. After an error the thread is of no use.
func (k *kept) goOn(ctx context.Context, plan *prompt.Plan, at Link) error {
	ctx, cancel := context.WithTimeout(ctx, resumeTimeout)
	defer cancel()
	if k.parked() {
		return k.answerCalls(ctx, plan, at)
	}
	if err := k.thread.NextTurn(); err != nil {
		return err
	}
	if more := plan.History[at.Items:]; len(more) > 0 {
		if err := k.thread.InjectItems(ctx, more); err != nil {
			return err
		}
	}
	turn := plan.Turn
	if effort := plan.Thread.Config.Effort(); effort != k.effort {
		turn.Effort = effort
	}
	return k.thread.StartTurn(ctx, turn)
}

// answerCalls gives a parked turn the results of its calls, and behind them the
// messages that follow.
func (k *kept) answerCalls(ctx context.Context, plan *prompt.Plan, at Link) error {
	if string(plan.Turn.OutputSchema) != k.schema {
		return fmt.Errorf("%w: the answer is to have another schema", errOtherFollowUp)
	}
	if plan.Thread.Config.Effort() != k.effort {
		return fmt.Errorf("%w: the turn is to have another effort", errOtherFollowUp)
	}
	results, messages, err := followUp(plan.History[at.Items:], at.Calls, k.waits)
	if err != nil {
		return err
	}
	if err := k.thread.Parked(ctx, k.waits); err != nil {
		return err
	}
	if err := k.follow(ctx, messages, plan.Turn.Input); err != nil {
		return err
	}
	return k.thread.AnswerCalls(ctx, results)
}

// follow puts messages behind the results of a parked turn: by turn/steer, which takes
// messages of the user's only, or else as items, which Codex puts there as well. Those
// by turn/steer come behind the items.
func (k *kept) follow(ctx context.Context, messages []gjson.Result, input []codexrpc.UserInput) error {
	if slices.ContainsFunc(messages, func(m gjson.Result) bool { return m.Get("role").Str != "user" }) {
		items := make([]json.RawMessage, len(messages))
		for i := range messages {
			items[i] = json.RawMessage(messages[i].Raw)
		}
		if err := k.thread.InjectItems(ctx, items); err != nil {
			return err
		}
		messages = nil
	}
	for _, m := range messages {
		if err := k.thread.Steer(ctx, inputParts(m.Get("content"))); err != nil {
			return err
		}
	}
	if len(input) == 0 {
		return nil
	}
	return k.thread.Steer(ctx, input)
}

// followUp reads the items behind the calls of an answer: the result of each call, and
// messages of the user's and instructions. calls are the ids of the calls in the request,
// waits those of the app-server, in the same order.
func followUp(items []json.RawMessage, calls, waits []string) (results []codexrpc.ToolResult, messages []gjson.Result, err error) {
	if len(calls) != len(waits) {
		return nil, nil, errOtherFollowUp
	}
	answered := make(map[int]bool, len(calls))
	for _, raw := range items {
		item := gjson.ParseBytes(raw)
		role := item.Get("role").Str
		switch kind := item.Get("type").Str; {
		case kind == "function_call_output" && messages == nil:
			at := slices.Index(calls, item.Get("call_id").Str)
			if at < 0 || answered[at] {
				return nil, nil, errOtherFollowUp
			}
			answered[at] = true
			parts := inputParts(item.Get("output"))
			if slices.ContainsFunc(parts, func(part codexrpc.UserInput) bool {
				return part.URL != "" && part.Detail != prompt.ResultDetail
			}) {
				return nil, nil, errOtherFollowUp // a result has no place for that
			}
			results = append(results, codexrpc.ToolResult{CallID: waits[at], Parts: parts})
		case kind == "message" && (role == "user" || role == "developer"):
			messages = append(messages, item)
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
