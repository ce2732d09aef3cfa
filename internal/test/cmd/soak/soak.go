package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

// exitWait bounds the exit of Caddy, quietWait the time until nothing is left of the
// traffic.
const (
	exitWait  = 30 * time.Second
	quietWait = 60 * time.Second
)

// soak is one run.
type soak struct {
	site    *site
	counts  counts
	trouble trouble
	outages outages
	samples samples
}

// run runs the traffic for the duration in the options. It returns an error if the
// verdict is bad or there is none.
func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "caddy-codex-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	site, err := newSite(ctx, o, dir)
	if err != nil {
		return err
	}
	s := &soak{site: site}
	defer site.close()
	begin, first := time.Now(), site.quiet()
	s.drive(ctx, o)
	took := time.Since(begin)
	s.end(ctx, first)
	s.report(took)
	return errors.Join(s.verdict(), ctx.Err())
}

// drive runs the traffic, the trouble and the sampling until the time is over, Caddy
// has exited, or ctx ends.
func (s *soak) drive(ctx context.Context, o options) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(o.minutes*float64(time.Minute)))
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	for i := range o.clients {
		c := s.newClient(i, rand.New(rand.NewPCG(o.seed, uint64(i))))
		all.Go(func() { c.run(ctx) })
	}
	r := rand.New(rand.NewPCG(o.seed, 1<<32))
	all.Go(func() { s.killing(ctx, rand.New(rand.NewPCG(r.Uint64(), 1))) })
	all.Go(func() { s.stopping(ctx, rand.New(rand.NewPCG(r.Uint64(), 2))) })
	all.Go(func() { s.reloading(ctx, rand.New(rand.NewPCG(r.Uint64(), 3))) })
	if s.site.model.Plan != nil {
		all.Go(func() { s.failing(ctx, rand.New(rand.NewPCG(r.Uint64(), 4))) })
	}
	all.Go(func() { s.watch(ctx) })
	select {
	case <-ctx.Done():
	case <-s.site.Exited():
		s.counts.fault("Caddy has ended by itself")
		cancel()
	}
}

// end checks what is left of the traffic, stops Caddy, and checks what is left of it.
func (s *soak) end(ctx context.Context, first quiet) {
	if ctx.Err() != nil {
		return // the run was interrupted
	}
	left := s.site.settle(quietWait, first)
	if left != "" {
		s.counts.fault("after the traffic: " + left)
	}
	if err := s.site.Caddy.Stop(exitWait); err != nil {
		s.counts.fault(fmt.Sprintf("the exit of Caddy: %v", err))
	}
	if err := errors.Join(s.site.checkGone()...); err != nil {
		s.counts.fault(fmt.Sprintf("after the exit: %v", err))
	}
}
