package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// keptThread waits for the next request of its conversation or, if it is a spare thread, for the first one.
type keptThread struct {
	thread *codexrpc.Thread
	place  Place       // of a spare thread, only Conn is set
	expiry *time.Timer // drops the thread when it fires; nil: the thread is not in Threads.order
	kind   *kind       // of a spare thread, whose following fields are empty; nil: the thread has a conversation

	hash         Hash           // identifies the history
	user         string         // the owner of the conversation
	size         int            // of the history, in bytes
	usage        codexrpc.Usage // the tokens of all turns so far
	context      int            // the tokens that the model read and wrote last; 0: not known
	pendingCalls []string       // the ids of the calls whose results the parked turn waits for; empty: it is not parked
	schema       string         // the JSON Schema of the answer of the last turn; empty: none
	effort       string         // the reasoning effort of the last turn; empty: the model's default
	request      status.Request // the last request, as of the end of its answer
}

// isSpare reports whether the thread has no conversation yet.
func (k *keptThread) isSpare() bool { return k.kind != nil }

// isParked reports whether the thread's turn waits for the results of tool calls.
func (k *keptThread) isParked() bool { return len(k.pendingCalls) > 0 }

// isIdle reports whether the thread waits for the next request: its turn is complete or parked.
func (k *keptThread) isIdle() bool {
	if k.isParked() {
		return k.thread.HasParked(k.pendingCalls)
	}
	return k.thread.Completed()
}

// endTimeout bounds the wait for the end of a turn after its model response is complete.
const endTimeout = 5 * time.Second

// awaitIdle waits until the thread is idle or cannot become idle any more, but at most endTimeout.
func (k *keptThread) awaitIdle() {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if k.isParked() {
		_ = k.thread.Parked(ctx, k.pendingCalls) // an error does not matter: the caller then calls isIdle
		return
	}
	select {
	case <-k.thread.Ended():
	case <-k.place.Conn.Done():
	case <-ctx.Done():
	}
}

// resumeTimeout bounds startOrResume. After that, the turn starts on another thread.
const resumeTimeout = 10 * time.Second

// startOrResume sends a kept thread the part of the request that is new to the thread: all that
// follows the answer of link. It starts a turn, or resumes the parked turn (one that waits for the
// results of tool calls). After an error, the thread cannot be used any more.
func (k *keptThread) startOrResume(ctx context.Context, plan *prompt.Plan, link Link) error {
	ctx, cancel := context.WithTimeout(ctx, resumeTimeout)
	defer cancel()
	if k.isParked() {
		return k.answerCalls(ctx, plan, link)
	}
	if err := k.thread.NextTurn(); err != nil {
		return err
	}
	if newItems := plan.History[link.Items:]; len(newItems) > 0 {
		if err := k.thread.InjectItems(ctx, newItems); err != nil {
			return err
		}
	}
	turn := plan.Turn
	if effort := plan.Thread.Config.Effort(); effort != k.effort {
		turn.Effort = effort // otherwise the thread keeps the last effort
	}
	return k.thread.StartTurn(ctx, turn)
}

// answerCalls sends a parked turn the results of its calls and the messages after them.
func (k *keptThread) answerCalls(ctx context.Context, plan *prompt.Plan, link Link) error {
	if string(plan.Turn.OutputSchema) != k.schema {
		return fmt.Errorf("%w: the answer is to have another schema", errFollowUpMismatch)
	}
	if plan.Thread.Config.Effort() != k.effort {
		return fmt.Errorf("%w: the turn is to have another effort", errFollowUpMismatch)
	}
	results, messages, err := readFollowUp(plan.History[link.Items:], link.Calls, k.pendingCalls)
	if err != nil {
		return err
	}
	if err := k.thread.Parked(ctx, k.pendingCalls); err != nil {
		return err
	}
	if err := k.addMessages(ctx, messages, plan.Turn.Input); err != nil {
		return err
	}
	return k.thread.AnswerCalls(ctx, results)
}

// addMessages adds messages, and then input, to a parked turn. Codex puts them after the results.
// turn/steer accepts only messages of the user. If there are others, all messages are injected as items
// instead. input is always sent by turn/steer.
func (k *keptThread) addMessages(ctx context.Context, messages []followUpMessage, input []codexrpc.UserInput) error {
	if slices.ContainsFunc(messages, func(m followUpMessage) bool { return !m.fromUser }) {
		items := make([]json.RawMessage, len(messages))
		for i := range messages {
			items[i] = messages[i].item
		}
		if err := k.thread.InjectItems(ctx, items); err != nil {
			return err
		}
		messages = nil
	}
	for i := range messages {
		if err := k.thread.Steer(ctx, inputParts(messages[i].content)); err != nil {
			return err
		}
	}
	if len(input) == 0 {
		return nil
	}
	return k.thread.Steer(ctx, input)
}

type followUpMessage struct {
	item     json.RawMessage // the item of the history, unchanged
	fromUser bool            // false: the message is the developer's
	content  wirejson.Value  // a string, or a list of parts
}

// readFollowUp reads what follows the tool calls of an answer: one result for each call, and then messages
// of the user or the developer. If anything else follows, the error is errFollowUpMismatch. calls are the
// request's ids of the calls, and pendingCalls the app-server's ids, in the same order.
func readFollowUp(items []json.RawMessage, calls, pendingCalls []string) (results []codexrpc.ToolResult, messages []followUpMessage, err error) {
	if len(calls) != len(pendingCalls) {
		return nil, nil, errFollowUpMismatch
	}
	answered := make(map[int]bool, len(calls))
	for _, raw := range items {
		var kind, role, content, callID, output wirejson.Value
		wirejson.Value(raw).PickTyped(&kind, wirejson.Into("role", &role), wirejson.Into("content", &content),
			wirejson.Into("call_id", &callID), wirejson.Into("output", &output))
		switch {
		case kind.Is("function_call_output") && messages == nil:
			index := slices.IndexFunc(calls, callID.Is)
			if index < 0 || answered[index] {
				return nil, nil, errFollowUpMismatch
			}
			answered[index] = true
			parts := inputParts(output)
			if slices.ContainsFunc(parts, func(part codexrpc.UserInput) bool {
				return part.URL != "" && part.Detail != prompt.ResultDetail
			}) {
				return nil, nil, errFollowUpMismatch // Codex accepts no detail for an image in a result: it always uses ResultDetail
			}
			results = append(results, codexrpc.ToolResult{CallID: pendingCalls[index], Parts: parts})
		case kind.Is("message") && (role.Is("user") || role.Is("developer")):
			messages = append(messages, followUpMessage{raw, role.Is("user"), content})
		default:
			return nil, nil, errFollowUpMismatch
		}
	}
	if len(answered) != len(calls) {
		return nil, nil, errFollowUpMismatch
	}
	return results, messages, nil
}

// inputParts reads a message's content or a call's output: a text or a list of parts.
func inputParts(content wirejson.Value) (input []codexrpc.UserInput) {
	if content.Kind() != wirejson.KindArray {
		return []codexrpc.UserInput{{Type: "text", Text: textOf(content)}}
	}
	for p := range parts(content) {
		if p.url.Given() {
			input = append(input, codexrpc.UserInput{Type: "image", URL: textOf(p.url), Detail: textOf(p.detail)})
		} else {
			input = append(input, codexrpc.UserInput{Type: "text", Text: textOf(p.text)})
		}
	}
	return input
}

// effortMayVary reports whether turns may have different reasoning efforts: the plan has an effort, and
// every app-server can change the effort within a conversation with the plan's model.
func effortMayVary(lease Lease, plan *prompt.Plan) bool {
	return plan.Thread.Config.Effort() != "" && !slices.ContainsFunc(lease.Members(), func(m Member) bool {
		return !m.Process.Model(plan.Thread.Model).Efforts
	})
}

// recordOutputs records in t.answer what the client gets, if the thread may be kept.
func (t *Turn) recordOutputs(outputs []turn.Output) {
	if t.current.threads == nil {
		return
	}
	for i := range outputs {
		switch out := &outputs[i]; {
		case out.Kind == turn.OutputText && out.Gap && out.Text == "":
			t.answer.Gap()
		case out.Kind == turn.OutputText:
			t.answer.Text(out.Text)
		case t.request.Options.OutputMode == turn.ModeXML: // the calls are a part of the text
		case out.Kind == turn.OutputCall:
			t.answer.Call(t.tools.Codex(out.Name), out.Text)
		}
	}
}

// announce announces that the thread will soon be kept, if it can be kept. announce is called before the
// client gets the end of the answer, since the client's next request may follow at once.
func (t *Turn) announce() {
	if t.current.threads == nil || t.answer.mixed || t.chain == nil || t.request.Options.Summary {
		return
	}
	t.historyHash = t.chain.After(&t.answer)
	t.answer.release()
	t.withdraw = t.current.threads.announce(t.historyHash)
}

// keep keeps the thread for the next request. It does nothing if announce has found that the thread
// cannot be kept, or if the thread differs from what the client got.
func (t *Turn) keep() {
	state := t.request.Machine.ThreadState()
	if t.withdraw == nil || t.current.thread == nil || !state.InSync {
		return
	}
	current := t.current
	kept := &keptThread{
		hash: t.historyHash, user: t.request.User, size: t.chain.Size + t.answer.size,
		thread: current.thread, place: current.place, usage: current.usageBefore.Add(t.usage),
		context: t.request.Machine.Context(), pendingCalls: state.PendingCalls, schema: t.schema, effort: t.effort, request: t.request.Live.Request(),
	}
	kept.request.Since = time.Now()
	current.threads.keepWhenIdle(kept, t.withdraw)
	t.current.thread, t.withdraw = nil, nil
	t.request.Memory.Release()
	current.onClose() // a kept thread does not count as a use of its process
}
