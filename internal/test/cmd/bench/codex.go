package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

const (
	// codexDeltas is the number of deltas of a long turn with the real codex.
	codexDeltas = 2000
	// codexLong is the number of long turns.
	codexLong = 4
)

// codexCost is what turns have cost that went to the scripted model.
type codexCost struct {
	toModel, first, whole []time.Duration // of short turns, from the client's request
	shortCPU, longCPU     usage
}

// usage is the CPU time of Caddy, and of all processes below it.
type usage struct{ caddy, codex time.Duration }

func (u usage) minus(v usage) usage { return usage{u.caddy - v.caddy, u.codex - v.codex} }

// usageOf reads the CPU time of a Caddy and of the processes below it.
func usageOf(pid int) usage {
	u := usage{caddy: cpu(pid)}
	for _, below := range rig.Below(pid) {
		u.codex += cpu(below)
	}
	return u
}

// measureCodex measures the real codex behind Caddy, over each transport to the model,
// and a client that talks to the model directly.
func measureCodex(ctx context.Context, o options) error {
	fmt.Printf("\nThe real codex: %d turns of one delta, %d of %d deltas\n", o.codexTurns, codexLong, codexDeltas)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "transport\tto the model, ms\tp95\tfirst chunk, ms\tp95\twhole turn, ms\tp95\tCPU a turn, ms: codex\tCaddy\tCPU a delta, us: codex\tCaddy")
	for _, run := range []func(context.Context, options) (string, *codexCost, error){direct, overHTTP, overWebSockets} {
		name, cost, err := run(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		cost.print(table, name, o.codexTurns)
	}
	return table.Flush()
}

func (c *codexCost) print(table *tabwriter.Writer, name string, turns int) {
	fmt.Fprint(table, name)
	for _, times := range [][]time.Duration{c.toModel, c.first, c.whole} {
		fmt.Fprintf(table, "\t%s\t%s", number(ms(percentile(times, 50))), number(ms(percentile(times, 95))))
	}
	if c.shortCPU == (usage{}) {
		fmt.Fprintln(table)
		return
	}
	n, deltas := time.Duration(turns), time.Duration(codexLong*codexDeltas)
	each := usage{c.shortCPU.caddy / n, c.shortCPU.codex / n}
	rest := c.longCPU.minus(usage{codexLong * each.caddy, codexLong * each.codex}) // beside what a turn costs
	fmt.Fprintf(table, "\t%s\t%s\t%s\t%s\n", number(ms(each.codex)), number(ms(each.caddy)), number(us(rest.codex/deltas)), number(us(rest.caddy/deltas)))
}

func overHTTP(ctx context.Context, o options) (string, *codexCost, error) {
	cost, err := throughCodex(ctx, o, false)
	return "Caddy, codex, HTTP", cost, err
}

func overWebSockets(ctx context.Context, o options) (string, *codexCost, error) {
	cost, err := throughCodex(ctx, o, true)
	return "Caddy, codex, WebSockets", cost, err
}

// throughCodex runs turns through Caddy and codex.
func throughCodex(ctx context.Context, o options, webSockets bool) (cost *codexCost, err error) {
	dir, err := os.MkdirTemp("", "caddy-codex-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	model, err := scriptedmodel.Listen(scriptedmodel.Options{})
	if err != nil {
		return nil, err
	}
	defer model.Close()
	if err := codexhome.Write(dir, model.URL, codexhome.Options{WebSockets: webSockets}); err != nil {
		return nil, err
	}
	s, err := startCaddy(ctx, o.Caddy, "Caddy", o.Codex, dir, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	a := &asker{url: "http://" + s.addr + "/v1/chat/completions", body: chatBody, text: chatText}
	defer model.On(a.arrive)()
	for range 3 { // warm up
		if err := a.ask(ctx, 10); err != nil {
			return nil, err
		}
	}
	a.codexCost = codexCost{}
	before := usageOf(s.pid)
	for range o.codexTurns {
		if err := a.ask(ctx, 1); err != nil {
			return nil, err
		}
	}
	between := usageOf(s.pid)
	cost = &codexCost{toModel: a.toModel, first: a.first, whole: a.whole, shortCPU: between.minus(before)}
	for range codexLong {
		if err := a.ask(ctx, codexDeltas); err != nil {
			return nil, err
		}
	}
	cost.longCPU = usageOf(s.pid).minus(between)
	return cost, nil
}

// direct runs turns without Caddy and codex.
func direct(ctx context.Context, o options) (string, *codexCost, error) {
	const name = "the model alone"
	model, err := scriptedmodel.Listen(scriptedmodel.Options{})
	if err != nil {
		return name, nil, err
	}
	defer model.Close()
	a := &asker{url: model.URL + "/responses", body: responsesBody, text: responsesText}
	defer model.On(a.arrive)()
	for range o.codexTurns {
		if err := a.ask(ctx, 1); err != nil {
			return name, nil, err
		}
	}
	return name, &a.codexCost, nil
}

// asker asks for texts, one after another, and checks them.
type asker struct {
	codexCost
	url  string
	body func(prompt string) any
	text func(data string) (string, error) // in an event

	mu      sync.Mutex
	arrived time.Time // when the model was last asked
}

// arrive notes when the model is asked. It leaves the answer to the directives.
func (a *asker) arrive(scriptedmodel.Request) (scriptedmodel.Script, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.arrived = time.Now()
	return scriptedmodel.Script{}, false
}

// ask asks for so many deltas.
func (a *asker) ask(ctx context.Context, deltas int) error {
	const word = "word "
	want := strings.TrimSpace(strings.Repeat(word, deltas))
	body, err := json.Marshal(a.body(fmt.Sprintf("chunk=%d; say:%s", len(word), want)))
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	start := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("a turn was answered with %s", response.Status)
	}
	var got strings.Builder
	reader := apiclient.NewReader(response.Body)
	for got.Len() < len(want) {
		event, err := reader.Next()
		if err != nil {
			return fmt.Errorf("a stream ended early: %w", err)
		}
		text, err := a.text(event.Data)
		if err != nil {
			return err
		}
		if text != "" && got.Len() == 0 {
			a.first = append(a.first, time.Since(start))
		}
		got.WriteString(text)
	}
	for { // to the end of the stream
		if _, err := reader.Next(); err != nil {
			break
		}
	}
	a.whole = append(a.whole, time.Since(start))
	a.mu.Lock()
	a.toModel = append(a.toModel, a.arrived.Sub(start))
	a.mu.Unlock()
	if got.String() != want {
		return fmt.Errorf("%d bytes came that differ from the %d that the model sent", got.Len(), len(want))
	}
	return nil
}

func chatBody(prompt string) any {
	return map[string]any{"model": "gpt-5", "stream": true, "messages": []any{map[string]string{"role": "user", "content": prompt}}}
}

// chatText returns the text of a chunk.
func chatText(data string) (string, error) {
	if data == "[DONE]" {
		return "", errors.New("the stream ended before its text")
	}
	var chunk struct {
		Choices []struct {
			Delta struct{ Content string }
		}
	}
	if err := json.Unmarshal([]byte(data), &chunk); err != nil || len(chunk.Choices) == 0 {
		return "", err
	}
	return chunk.Choices[0].Delta.Content, nil
}

func responsesBody(prompt string) any {
	return map[string]any{"model": "gpt-5", "stream": true, "input": []any{map[string]any{
		"type": "message", "role": "user", "content": []any{map[string]string{"type": "input_text", "text": prompt}},
	}}}
}

// responsesText returns the text of an event of the Responses API.
func responsesText(data string) (string, error) {
	var event struct{ Type, Delta string }
	if err := json.Unmarshal([]byte(data), &event); err != nil || event.Type != "response.output_text.delta" {
		return "", err
	}
	return event.Delta, nil
}
