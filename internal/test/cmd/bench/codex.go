package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

const (
	// codexDeltas is the number of deltas of a long turn with the real codex.
	codexDeltas = 2000
	codexLong   = 4
	codexTalk   = 10
)

// path is a way from a client to a scripted model of its own, and what turns on it cost.
type path struct {
	name  string
	model *rig.Model
	site  *rig.Site // Caddy with codex; nil: there is neither

	ready                 time.Duration   // from the start of Caddy
	toModel, first, whole []time.Duration // of short turns, from the client's request
	short, talk, long     usage           // of all such turns
	memory                int             // of codex, after all turns, in kB

	texts []string // of the conversation that goes on
}

// usage is the CPU time of Caddy, and of all processes below it.
type usage struct{ caddy, codex time.Duration }

func (u usage) minus(v usage) usage { return usage{u.caddy - v.caddy, u.codex - v.codex} }

func (p *path) used() usage {
	if p.site == nil {
		return usage{}
	}
	return usage{rig.CPU(p.site.PID), rig.UsageBelow(p.site.PID).CPU}
}

// measureCodex measures codex behind Caddy over each transport, and a client that asks the model
// itself. All are up together and their turns alternate, so that a busy machine slows all alike.
func measureCodex(ctx context.Context, o options) (err error) {
	var paths []*path
	defer func() {
		for _, p := range paths {
			err = errors.Join(err, p.close())
		}
	}()
	start := func(name, caddy string, webSockets bool) {
		if err == nil {
			var p *path
			if p, err = openPath(ctx, o, name, caddy, webSockets); err == nil {
				paths = append(paths, p)
			}
		}
	}
	start("the model alone", "", false)
	for _, webSockets := range []bool{false, true} {
		transport := map[bool]string{false: ", codex, HTTP", true: ", codex, WebSockets"}[webSockets]
		if o.before != "" {
			start("before"+transport, o.before, webSockets)
		}
		start("Caddy"+transport, o.Caddy, webSockets)
	}
	if err != nil {
		return err
	}
	if err := alternate(paths, 3, func(p *path) error { return p.ask(ctx, 10) }); err != nil { // warm up
		return err
	}
	for _, p := range paths {
		p.toModel, p.first, p.whole = nil, nil, nil
	}
	if err := phase(paths, o.codexTurns, func(p *path) *usage { return &p.short }, func(p *path) error { return p.ask(ctx, 1) }); err != nil {
		return err
	}
	// Each conversation has an end, so that its history stays short.
	if err := phase(paths, o.codexTurns, func(p *path) *usage { return &p.talk }, func(p *path) error { return p.goOn(ctx) }); err != nil {
		return err
	}
	if err := phase(paths, codexLong, func(p *path) *usage { return &p.long }, func(p *path) error { return p.ask(ctx, codexDeltas) }); err != nil {
		return err
	}
	for _, p := range paths {
		if p.site != nil {
			p.memory = rig.UsageBelow(p.site.PID).Memory
		}
	}
	return printPaths(paths, o.codexTurns)
}

// phase runs turns on all paths, and stores what they cost on each.
func phase(paths []*path, turns int, cost func(*path) *usage, run func(*path) error) error {
	for _, p := range paths {
		*cost(p) = p.used()
	}
	err := alternate(paths, turns, run)
	for _, p := range paths {
		*cost(p) = p.used().minus(*cost(p))
	}
	return err
}

// alternate runs turns on all paths. Which of them is the first changes.
func alternate(paths []*path, turns int, run func(*path) error) error {
	for round := range turns {
		for i := range paths {
			p := paths[(i+round)%len(paths)]
			if err := run(p); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return nil
}

// openPath starts a model and, unless there is no program caddy, a Caddy with codex.
func openPath(ctx context.Context, o options, name, caddy string, webSockets bool) (p *path, err error) {
	p = &path{name: name}
	if p.model, err = rig.NewModel(webSockets); err != nil || caddy == "" {
		return p, err
	}
	start := time.Now()
	handler := ""
	if strings.HasPrefix(name, isCaddy) {
		handler = o.handler
	}
	p.site, err = rig.StartSite(ctx, caddy, rig.SiteOptions{Handler: handler, Command: o.Codex, Home: p.model.Home, AppServer: "max_memory " + o.maxMemory})
	if err != nil {
		p.model.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.ready = time.Since(start)
	return p, nil
}

func (p *path) close() (err error) {
	if p.site != nil {
		err = p.site.Stop()
	}
	p.model.Close()
	return err
}

// goOn takes the next turn of a conversation, or the first of another one.
func (p *path) goOn(ctx context.Context) error {
	if len(p.texts) == 2*codexTalk {
		p.texts = nil
	}
	prompt, want := task(1)
	if err := p.ask(ctx, 1, p.texts...); err != nil {
		return err
	}
	p.texts = append(p.texts, prompt, want)
	return nil
}

// task returns what makes the model send so many deltas, and their text.
func task(deltas int) (prompt, want string) {
	const word = "word "
	want = strings.TrimSpace(strings.Repeat(word, deltas))
	return fmt.Sprintf("chunk=%d; say:%s", len(word), want), want
}

// ask asks for so many deltas in a conversation with earlier texts, and checks them.
func (p *path) ask(ctx context.Context, deltas int, earlier ...string) error {
	prompt, want := task(deltas)
	start := time.Now()
	answer, err := p.answer(ctx, append(slices.Clip(earlier), prompt))
	if err != nil {
		return err
	}
	if answer.Text != want {
		return fmt.Errorf("%d bytes came that differ from the %d that the model sent", len(answer.Text), len(want))
	}
	p.toModel = append(p.toModel, p.model.Asked().Sub(start))
	p.first, p.whole = append(p.first, answer.First), append(p.whole, answer.Whole)
	return nil
}

func (p *path) answer(ctx context.Context, texts []string) (rig.Answer, error) {
	if p.site != nil {
		return p.site.Chat(ctx, texts...)
	}
	return rig.Stream(ctx, p.model.URL+"/responses", map[string]any{"model": "gpt-5", "stream": true, "input": []any{map[string]any{
		"type": "message", "role": "user", "content": []any{map[string]string{"type": "input_text", "text": texts[len(texts)-1]}},
	}}}, func(data string) (string, error) {
		var event struct{ Type, Delta string }
		if err := json.Unmarshal([]byte(data), &event); err != nil || event.Type != "response.output_text.delta" {
			return "", err
		}
		return event.Delta, nil
	})
}

// printPaths prints a line for each path. The times are those of short turns.
func printPaths(paths []*path, turns int) error {
	fmt.Printf("\nThe real codex: %d turns of one delta, as many in conversations of %d turns, %d turns of %d deltas\n", turns, codexTalk, codexLong, codexDeltas)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "path\tto the model, ms\tp95\tfirst chunk, ms\tp95\twhole turn, ms\tp95\tCPU a turn, ms: codex\tCaddy\tin a conversation: codex\tCaddy\tCPU a delta, us: codex\tCaddy\tto ready, ms\tcodex, MB")
	for _, p := range paths {
		fmt.Fprint(table, p.name)
		for _, times := range [][]time.Duration{p.toModel[:turns], p.first[:turns], p.whole[:turns]} {
			fmt.Fprintf(table, "\t%s\t%s", number(rig.MS(rig.Percentile(times, 50))), number(rig.MS(rig.Percentile(times, 95))))
		}
		if p.site != nil {
			n, deltas := time.Duration(turns), time.Duration(codexLong*codexDeltas)
			each := usage{p.short.caddy / n, p.short.codex / n}
			rest := p.long.minus(usage{codexLong * each.caddy, codexLong * each.codex}) // beside what a turn costs
			fmt.Fprintf(table, "\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d", number(rig.MS(each.codex)), number(rig.MS(each.caddy)),
				number(rig.MS(p.talk.codex/n)), number(rig.MS(p.talk.caddy/n)),
				number(us(rest.codex/deltas)), number(us(rest.caddy/deltas)), p.ready.Milliseconds(), p.memory>>10)
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}
