package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

const (
	pairRounds = 11
	pairTurns  = 20 // short turns in a round
	pairShort  = 5  // deltas of a short turn
)

// side is one of the two Caddies that are compared.
type side struct {
	caddy   *rig.Caddy
	run     runner
	ready   time.Duration // from the start until it was ready
	memory  int           // of all processes of codex, in kB, after the turns
	turn    []float64     // CPU of codex a short turn, in ms, by round
	delta   []float64     // and a delta, in us
	wait    []float64     // a short turn as its client waits for it, in ms
	cleanup func()
}

// measurePair measures codex behind o.before and o.Caddy, over each transport. Both run
// at the same time, and their turns alternate, so that a busy machine slows both alike.
func measurePair(ctx context.Context, o options) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "transport\tCaddy\tms CPU a turn of %d deltas\tus CPU a delta\tms a turn\tms to ready\tMB codex\t\n", pairShort)
	for _, transport := range []scriptedmodel.Transport{scriptedmodel.HTTP, scriptedmodel.WebSocket} {
		if err := comparePair(ctx, o, transport, table); err != nil {
			return err
		}
	}
	return table.Flush()
}

func comparePair(ctx context.Context, o options, transport scriptedmodel.Transport, table *tabwriter.Writer) (err error) {
	before := o
	before.Caddy = o.before
	var sides []*side
	defer func() {
		for _, s := range sides {
			err = errors.Join(err, s.caddy.Stop(exitWait))
			s.cleanup()
		}
	}()
	for _, o := range []options{before, o} {
		s, err := startSide(ctx, o, transport)
		if err != nil {
			return err
		}
		sides = append(sides, s)
	}
	for round := range pairRounds {
		for i := range sides {
			if err := sides[(i+round)%2].round(ctx, o); err != nil {
				return err
			}
		}
	}
	for i, name := range []string{"before", "now"} {
		s := sides[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t\n", transport, name,
			middle(s.turn), middle(s.delta), middle(s.wait), s.ready.Milliseconds(), s.memory/1024)
	}
	return nil
}

// startSide starts a Caddy with a model of its own.
func startSide(ctx context.Context, o options, transport scriptedmodel.Transport) (*side, error) {
	dir, err := os.MkdirTemp("", "caddy-codex-measure-")
	if err != nil {
		return nil, err
	}
	model, err := scriptedmodel.Listen(scriptedmodel.Options{})
	if err != nil {
		return nil, err
	}
	s := &side{cleanup: func() { model.Close(); _ = os.RemoveAll(dir) }}
	err = codexhome.Write(dir, model.URL, codexhome.Options{WebSockets: transport == scriptedmodel.WebSocket})
	start := time.Now()
	if err == nil {
		var at *site
		if s.caddy, at, err = startCaddy(ctx, o, dir, ""); err == nil {
			s.run = overHTTP(at.url)
		}
	}
	if err != nil {
		s.cleanup()
		return nil, err
	}
	s.ready = time.Since(start)
	o.deltas, o.atOnce = pairShort, 1
	_, err = load(ctx, o, s.run, pairTurns) // warm up
	return s, err
}

// round runs short turns and a long one.
func (s *side) round(ctx context.Context, o options) error {
	o.atOnce = 1
	cost := func(turns, deltas int) (cpu, wait float64, err error) {
		o.deltas = deltas
		start := s.cpu()
		result, err := load(ctx, o, s.run, turns)
		if err != nil {
			return 0, 0, err
		}
		return ms(s.cpu() - start), ms(result.took), nil
	}
	long := o.deltas
	short, wait, err := cost(pairTurns, pairShort)
	if err != nil {
		return err
	}
	all, _, err := cost(1, long)
	turn := short / pairTurns
	s.turn, s.wait = append(s.turn, turn), append(s.wait, wait/pairTurns)
	s.delta = append(s.delta, 1000*(all-turn)/float64(max(long-pairShort, 1)))
	s.memory = 0
	for _, pid := range rig.Below(s.caddy.PID) {
		s.memory += rig.Memory(pid, rig.Resident)
	}
	return err
}

// cpu returns the CPU time of the processes below Caddy.
func (s *side) cpu() (sum time.Duration) {
	for _, pid := range rig.Below(s.caddy.PID) {
		sum += rig.CPU(pid)
	}
	return sum
}

// middle returns the median of some figures, and the least and the most.
func middle(figures []float64) string {
	slices.Sort(figures)
	return fmt.Sprintf("%.1f (%.1f to %.1f)", figures[len(figures)/2], figures[0], figures[len(figures)-1])
}
