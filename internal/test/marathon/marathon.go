// Package marathon has sessions of real clients that push many times more through a model's context
// window than it holds, and reports what failed, what was forgotten, and what the cache would have had.
package marathon

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// Options say how long a session is.
type Options struct {
	// Model is the model behind the gateway, Window that which it has.
	Model  *scriptedmodel.Server
	Window int
	// Front is before the gateway; its refusals count as failures.
	Front *Front
	// Dir is where the client's tool runs.
	Dir string
	// Tokens are to be added to the conversation in all. Each turn calls a tool Calls times, which adds
	// Step tokens each.
	Tokens, Step, Calls int
	// Summary is the least length of summaries, in bytes.
	Summary int
	// Trouble is made between turns, with as much of the session before each as after it.
	Trouble []Trouble
	// Log is called with a line after each turn; it may be nil.
	Log func(line string)
}

// Trouble is something that a session must survive.
type Trouble struct {
	Name string
	Make func(ctx context.Context) error
}

// maxFailures ends a session: what comes after them is likely to be their consequence.
const maxFailures = 5

// half of the facts are said by the user, half are read by the tool.
const (
	facts     = 20
	factsFile = "facts.txt"
)

// runner runs a session.
type runner struct {
	Options
	client Client
	meter  *meter
	report Report
}

// Run plants facts in a session of a client, goes on until it has pushed enough tokens, and asks for
// the facts after each trouble and in the end. The client is not closed.
func Run(ctx context.Context, client Client, o Options) Report {
	r := runner{Options: o, client: client, meter: observe(o.Model)}
	began := time.Now()
	planted := r.plant(ctx)
	troubles := 0
	for turn := 1; r.meter.counts().Pushed < o.Tokens && r.going(ctx); turn++ {
		if r.meter.counts().Pushed > o.Tokens*(troubles+1)/(len(o.Trouble)+1) && troubles < len(o.Trouble) {
			trouble := o.Trouble[troubles]
			troubles++
			if err := trouble.Make(ctx); err != nil {
				r.fail("%s: %v", trouble.Name, err)
			}
			r.recall(ctx, planted)
			r.log("%s; %s", trouble.Name, r.meter.counts())
		}
		r.turn(ctx, turn)
		r.log("turn %d: %s", turn, r.meter.counts())
	}
	r.recall(ctx, planted)
	r.meter.stop()
	r.report.Counts, r.report.Took = r.meter.counts(), time.Since(began)
	r.report.Failures = append(r.report.Failures, o.Front.Refusals()...)
	if err := ctx.Err(); err != nil {
		r.fail("%v", err)
	}
	return r.report
}

func (r *runner) going(ctx context.Context) bool {
	return ctx.Err() == nil && len(r.report.Failures) < maxFailures
}

func (r *runner) fail(format string, args ...any) {
	r.report.Failures = append(r.report.Failures, fmt.Sprintf(format, args...))
}

func (r *runner) log(format string, args ...any) {
	if r.Log != nil {
		r.Log(fmt.Sprintf(format, args...))
	}
}

// plant tells the session all facts, and returns them.
func (r *runner) plant(ctx context.Context) map[string]string {
	planted := make(map[string]string)
	said, read := fmt.Sprintf("FACT summary_bytes = %d", r.Summary), ""
	for i := range facts {
		name, value := fmt.Sprintf("fact-%d", i+1), fmt.Sprintf("value-%d-%d", i+1, time.Now().UnixNano()%1_000_000)
		planted[name] = value
		line := "\nFACT " + name + " = " + value
		if i%2 == 0 {
			said += line
		} else {
			read += line
		}
	}
	if err := os.WriteFile(filepath.Join(r.Dir, factsFile), []byte(read+"\n"), 0o600); err != nil {
		r.fail("%v", err)
	}
	r.ask(ctx, "say:Noted.\n"+said, "Noted.")
	r.ask(ctx, r.client.Call("cat "+factsFile)+"; then; say:I have read it.", "I have read it.")
	return planted
}

// turn lets the session call its tool, which prints words: their tokens are easier to estimate than those
// of numbers.
func (r *runner) turn(ctx context.Context, n int) {
	var prompt strings.Builder
	for call := range r.Calls {
		command := fmt.Sprintf("echo %d-%d && yes and so on, as it was written before | head -c %d", n, call, 4*r.Step)
		prompt.WriteString(r.client.Call(command) + "; then; ")
	}
	want := fmt.Sprintf("Turn %d is done.", n)
	r.ask(ctx, prompt.String()+"say:"+want, want)
}

// recall asks for all facts.
func (r *runner) recall(ctx context.Context, planted map[string]string) {
	if !r.going(ctx) {
		return
	}
	answer := "\n" + r.ask(ctx, "RECALL ALL", "") + "\n"
	for _, name := range slices.Sorted(maps.Keys(planted)) {
		if !strings.Contains(answer, "\n"+name+" = "+planted[name]+"\n") {
			r.report.Forgotten = append(r.report.Forgotten, name)
		}
	}
}

// ask asks the session, which must answer with want. If it was summarised meanwhile, the client decides
// with what the model goes on, so the answer may be another one.
func (r *runner) ask(ctx context.Context, prompt, want string) string {
	r.report.Turns++
	before := r.meter.counts().Summaries
	answer, err := r.client.Ask(ctx, prompt)
	summarised := r.meter.counts().Summaries > before
	switch {
	case err != nil:
		r.fail("turn %d: %v", r.report.Turns, err)
	case !strings.Contains(answer, want) && !summarised || answer == "":
		r.fail("turn %d: %.300q, not %q", r.report.Turns, answer, want)
	}
	return answer
}
