// Command differ sends the same random requests to this Caddy and to that of another commit, and
// prints each difference of their answers and of what reaches the model. Both have the real codex
// and a scripted model of their own. About half of the requests have faults, some of them several at
// once, so that another order of checks shows.
//
// Each case is drawn from the seed and its number: -seed 7 -only 123 repeats one of them. Ids,
// times and the sizes of deltas are not compared. What was changed on purpose is in decided. It
// runs on Linux only.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// options are the command's flags.
type options struct {
	rig.Programs
	before      string
	seed        uint64
	cases, only int
	workers     int
	rule        string
	handler     string
	login       bool
}

func main() {
	var o options
	flag.StringVar(&o.before, "before", "", "the Caddy to compare with")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "draws the cases")
	flag.IntVar(&o.cases, "cases", 3000, "number of cases")
	flag.IntVar(&o.only, "only", -1, "run only the case of this number")
	flag.IntVar(&o.workers, "workers", 4, "cases that run at the same time")
	flag.StringVar(&o.rule, "rule", "start", "the rule of grammar.txt that cases are drawn from; those of failures depend on each other and need -workers 1")
	flag.BoolVar(&o.login, "login", true, "with a login and WebSockets to the model; without it, failures do not make Codex change to HTTP")
	flag.StringVar(&o.handler, "handler", "", "further lines of the directive codex; HOME is a directory of each side")
	rig.Main("differ", func(ctx context.Context, programs rig.Programs) error {
		o.Programs = programs
		return run(ctx, o)
	})
}

type side struct {
	*rig.Site
	model *rig.Model

	mu    sync.Mutex
	asked map[string][]string // what has reached the model, by the mark of the case
}

// caddyfile lets all routes exist.
const caddyfile = `
	ollama on
	images on
	model quick gpt-5.4-mini low
	max_concurrent 32
`

func start(ctx context.Context, o options, caddy string) (s *side, err error) {
	s = &side{asked: make(map[string][]string)}
	if s.model, err = rig.NewModelFor(o.Codex, o.login); err != nil {
		return nil, err
	}
	s.model.On(s.record)
	s.Site, err = rig.StartSite(ctx, caddy, rig.SiteOptions{Command: o.Codex, Home: s.model.Home, Handler: caddyfile + strings.ReplaceAll(o.handler, "HOME", s.model.Home)})
	if err != nil {
		s.model.Close()
		return nil, err
	}
	return s, nil
}

func (s *side) close() {
	_ = s.Stop()
	s.model.Close()
}

var (
	marks = regexp.MustCompile(`case\d+x`)
	// asks are the members of requests to the model that say what is asked.
	asks = []string{"model", "instructions", "input", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text", "service_tier", "include", "store"}
	// chosen are the parts that Codex chooses. The last one depends on whether it uses WebSockets.
	chosen = regexp.MustCompile(`"(id":"[^"]*"|create_time":[0-9.e+]+),?|,\{"type":"configuration_update",[^}]*\}\}`)
	// ownRequests are those that Codex makes by itself. Most of them are interrupted, some too late.
	ownRequests = regexp.MustCompile(`"generate":false|<content_filter_guidance>|failed to parse function arguments|unsupported call: `)
)

// record keeps what has reached the model for a case.
func (s *side) record(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
	if mark := string(marks.Find(r.Body)); mark != "" && !ownRequests.Match(r.Body) {
		var asked strings.Builder
		for _, name := range asks {
			fmt.Fprintf(&asked, "%s: %s\n", name, chosen.ReplaceAllString(gjson.GetBytes(r.Body, name).Raw, ""))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked[mark] = append(s.asked[mark], asked.String())
	}
	return scriptedmodel.Script{}, false // the prompt has the script
}

// reached returns what has reached the model for a case. Choices and repeated turns come in any order.
func (s *side) reached(number int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked[mark(number)]
	delete(s.asked, mark(number))
	for i := range asked {
		asked[i] = make(names).normal(asked[i])
	}
	slices.Sort(asked)
	return strings.Split(strings.Join(slices.Compact(asked), ""), "\n")
}

// decided are the cases that differ on purpose.
var decided = regexp.MustCompile(`v1/completions|local_shell|image_generation`)

func run(ctx context.Context, o options) error {
	now, err := start(ctx, o, o.Caddy)
	if err != nil {
		return err
	}
	defer now.close()
	before, err := start(ctx, o, o.before)
	if err != nil {
		return err
	}
	defer before.close()
	fmt.Printf("seed %d, %d cases\n", o.seed, o.cases)
	began := time.Now()
	var next, different, onPurpose, steps, answered atomic.Int64
	var workers sync.WaitGroup
	for range o.workers {
		workers.Go(func() {
			for ctx.Err() == nil {
				number := int(next.Add(1) - 1)
				if number >= o.cases {
					return
				}
				if o.only >= 0 && number != o.only {
					continue
				}
				drawn := drawCase(o.rule, o.seed, number)
				steps.Add(int64(len(drawn)))
				report, ok := compare(ctx, before, now, number, drawn)
				answered.Add(ok)
				if o.only >= 0 {
					fmt.Println(drawn, "\n", report)
				}
				if report == "" || ctx.Err() != nil {
					continue
				}
				if decided.MatchString(fmt.Sprint(drawn)) {
					onPurpose.Add(1)
					continue
				}
				different.Add(1)
				fmt.Printf("\n== case %d of seed %d\n%s", number, o.seed, report)
			}
		})
	}
	workers.Wait()
	fmt.Printf("\n%d requests in %s, %d of them answered without an error\n%d cases differ on purpose\n",
		steps.Load(), time.Since(began).Round(time.Second), answered.Load(), onPurpose.Load())
	if n := different.Load(); n > 0 {
		return fmt.Errorf("%d cases differ", n)
	}
	return ctx.Err()
}

// compare runs a case on both sides. ok is how many of now's answers are no errors.
func compare(ctx context.Context, before, now *side, number int, steps []step) (differs string, ok int64) {
	var was, is []answer
	var both sync.WaitGroup
	both.Go(func() { was = ask(ctx, before.URL, steps) })
	both.Go(func() { is = ask(ctx, now.URL, steps) })
	both.Wait()
	var report strings.Builder
	wasNames, isNames := make(names), make(names)
	for i, s := range steps {
		if is[i].status < http.StatusBadRequest {
			ok++
		}
		if d := difference(was[i].normal(wasNames), is[i].normal(isNames)); d != "" {
			fmt.Fprintf(&report, "step %d: %s\n%s", i+1, s, d)
		}
	}
	if d := difference(before.reached(number), now.reached(number)); d != "" {
		if report.Len() == 0 {
			fmt.Fprintln(&report, steps)
		}
		fmt.Fprintf(&report, "what reached the model:\n%s", d)
	}
	return report.String(), ok
}

// maxShown bounds the bytes of a line that are printed.
const maxShown = 600

// difference returns the lines that only one has, from shortly before the first byte that differs.
func difference(was, is []string) string {
	if slices.Equal(was, is) {
		return ""
	}
	var b strings.Builder
	show := func(sign string, lines, others []string) {
		for i, line := range lines {
			if slices.Contains(others, line) {
				continue
			}
			from := 0
			for i < len(others) && from < min(len(line), len(others[i])) && line[from] == others[i][from] {
				from++
			}
			from = max(0, from-maxShown/3)
			fmt.Fprintf(&b, "  %s %s\n", sign, line[from:min(len(line), from+maxShown)])
		}
	}
	show("-", was, is)
	show("+", is, was)
	return cmp.Or(b.String(), "  the lines are the same, in another order or number\n")
}
