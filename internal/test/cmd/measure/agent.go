package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// The conversation of an agent: turns in each of which the model calls a tool
// some times, then answers.
const (
	agentModel        = "gpt-5.5"
	agentTurns        = 10
	agentRounds       = 3
	agentTools        = 10
	agentInstructions = 4 << 10 // bytes
	agentResult       = 2 << 10 // bytes of a tool's result
)

// agentCost is what agents have cost.
type agentCost struct {
	stats    scriptedmodel.Stats
	keys     int             // prompt_cache_keys
	extended int             // requests whose input begins with the whole input of the one before
	thoughts int             // reasoning items in the last input of a conversation
	toModel  []time.Duration // from the client's request to the model's
	whole    []time.Duration // from the client's request to the end of its answer
	codex    time.Duration   // CPU
	caddy    time.Duration   // CPU
}

// measureAgents runs agents over each transport, with conversations and without,
// and prints what they cost.
func measureAgents(ctx context.Context, o options) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Printf("%d conversations of %d turns with %d rounds of tools, each conversation:\n", o.agents, agentTurns, agentRounds)
	fmt.Fprintln(table, "transport\tconversations\tkeys\textended\treasoning\trequests\twarm-ups\tsockets\tkB to model\tms to model\t95 %\tms answer\t95 %\tCPU codex ms\tCPU Caddy ms\t")
	for _, webSockets := range []bool{false, true} {
		for _, conversations := range []string{"off", "on"} {
			cost, err := runAgents(ctx, o, webSockets, conversations)
			if err != nil {
				return err
			}
			transport := scriptedmodel.HTTP
			if webSockets {
				transport = scriptedmodel.WebSocket
			}
			cost.print(table, transport, conversations, o.agents)
		}
	}
	return table.Flush()
}

func (c *agentCost) print(to io.Writer, transport scriptedmodel.Transport, conversations string, agents int) {
	n := float64(agents)
	fmt.Fprintf(to, "%s\t%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t%.0f\t\n",
		transport, conversations, float64(c.keys)/n, float64(c.extended)/n, float64(c.thoughts)/n,
		float64(c.stats.Requests)/n, float64(c.stats.Warmups)/n, float64(c.stats.Sockets)/n, float64(c.stats.Bytes)/n/1000,
		rig.MS(rig.Percentile(c.toModel, 50)), rig.MS(rig.Percentile(c.toModel, 95)), rig.MS(rig.Percentile(c.whole, 50)), rig.MS(rig.Percentile(c.whole, 95)),
		rig.MS(c.codex)/n, rig.MS(c.caddy)/n)
}

// runAgents runs agents one after another on a Caddy and a codex of their own. The
// first of them is not counted.
func runAgents(ctx context.Context, o options, webSockets bool, conversations string) (cost *agentCost, err error) {
	err = o.withSite(ctx, webSockets, "conversations "+conversations, func(site *rig.Site, model *rig.Model) error {
		a := &agents{site: site, model: model}
		if err := a.run(ctx, 1); err != nil {
			return err
		}
		a.agentCost = agentCost{}
		before, caddy, codex := model.Stats(), rig.CPU(site.PID), rig.UsageBelow(site.PID).CPU
		err := a.run(ctx, o.agents)
		a.caddy, a.codex = rig.CPU(site.PID)-caddy, rig.UsageBelow(site.PID).CPU-codex
		a.stats = difference(model.Stats(), before)
		cost = &a.agentCost
		return err
	})
	return cost, err
}

func difference(after, before scriptedmodel.Stats) scriptedmodel.Stats {
	return scriptedmodel.Stats{
		Requests: after.Requests - before.Requests, Warmups: after.Warmups - before.Warmups,
		Bytes: after.Bytes - before.Bytes, Sockets: after.Sockets - before.Sockets,
	}
}

// agents talk to a Caddy.
type agents struct {
	agentCost
	site  *rig.Site
	model *rig.Model
}

// run runs so many conversations.
func (a *agents) run(ctx context.Context, n int) error {
	for i := range n {
		seen := a.model.Stats()
		if err := a.converse(ctx, i); err != nil {
			return err
		}
		requests := a.model.Requests()
		a.look(requests[len(requests)-(a.model.Stats().Requests-seen.Requests):])
	}
	return nil
}

// look compares the requests of a conversation.
func (a *agents) look(requests []scriptedmodel.Request) {
	keys := make(map[string]bool)
	var before []string
	for i, r := range requests {
		keys[r.PromptCacheKey] = true
		items := gist(r)
		if i > 0 && len(items) >= len(before) && slices.Equal(items[:len(before)], before) {
			a.extended++
		}
		before = items
	}
	a.keys += len(keys)
	for _, it := range requests[len(requests)-1].Input {
		if it.Type == "reasoning" && it.EncryptedContent != "" {
			a.thoughts++
		}
	}
}

// gist tells the items of an input apart without their ids, which differ between
// what the model said and what a client says of it.
func gist(r scriptedmodel.Request) (items []string) {
	for _, it := range r.Input {
		items = append(items, strings.Join([]string{it.Type, it.Role, it.Content.String(), it.Name, it.Arguments, it.Output.String(), it.EncryptedContent}, "\x00"))
	}
	return items
}

// message is a message of a chat.
type message struct {
	Role       string               `json:"role"`
	Content    string               `json:"content"`
	ToolCalls  []apiclient.ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string               `json:"tool_call_id,omitempty"`
}

// converse runs a conversation.
func (a *agents) converse(ctx context.Context, number int) error {
	history := []message{{Role: "system", Content: fmt.Sprintf("Conversation %d. %s", number, strings.Repeat("Be thorough. ", agentInstructions/13))}}
	for turn := range agentTurns {
		history = append(history, message{Role: "user", Content: agentPrompt(turn)})
		for round := 0; ; round++ {
			answer, err := a.ask(ctx, history)
			if err != nil {
				return err
			}
			history = append(history, answer)
			if len(answer.ToolCalls) == 0 {
				if round != agentRounds {
					return fmt.Errorf("turn %d has %d rounds of tools, want %d", turn, round, agentRounds)
				}
				break
			}
			for _, call := range answer.ToolCalls {
				history = append(history, message{Role: "tool", ToolCallID: call.ID, Content: strings.Repeat("found ", agentResult/6)})
			}
		}
	}
	return nil
}

// agentPrompt is the script of a turn.
func agentPrompt(turn int) string {
	var prompt strings.Builder
	for round := range agentRounds {
		fmt.Fprintf(&prompt, "reason:I think of %d.%d.; tool:search%d {\"query\":\"note %d.%d\"}; then; ", turn, round, round, turn, round)
	}
	fmt.Fprintf(&prompt, "reason:I know.; say:This is the answer to question %d.", turn)
	return prompt.String()
}

// ask sends the history, returns the answer, and notes how long it took.
func (a *agents) ask(ctx context.Context, history []message) (message, error) {
	start := time.Now()
	answer, err := ask(ctx, a.site, history)
	a.whole = append(a.whole, time.Since(start))
	a.toModel = append(a.toModel, a.model.Asked().Sub(start))
	return answer, err
}

// ask sends a history to a site and returns the answer.
func ask(ctx context.Context, site *rig.Site, history []message) (message, error) {
	var tools []any
	for i := range agentTools {
		tools = append(tools, map[string]any{"type": "function", "function": map[string]any{
			"name": fmt.Sprintf("search%d", i), "description": "Searches the notes.",
			"parameters": map[string]any{"type": "object", "properties": map[string]any{"query": map[string]any{"type": "string"}}, "required": []string{"query"}},
		}})
	}
	body := map[string]any{"model": agentModel, "reasoning_effort": "low", "messages": history, "tools": tools}
	var answer struct {
		Choices []struct {
			Message message `json:"message"`
		} `json:"choices"`
	}
	err := rig.Post(ctx, site.URL+"/v1/chat/completions", body, func(r io.Reader) error { return json.NewDecoder(r).Decode(&answer) })
	if err == nil && len(answer.Choices) != 1 {
		err = fmt.Errorf("an agent got %d choices", len(answer.Choices))
	}
	if err != nil {
		return message{}, err
	}
	return answer.Choices[0].Message, nil
}
