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

// exitWait bounds the exit of Caddy, quietWait the time until nothing is left of the traffic.
const (
	exitWait  = 30 * time.Second
	quietWait = 60 * time.Second
)

type soak struct {
	site    *site
	counts  counts
	trouble trouble
	outages outages
	meters  *meters // nil without -meters
	samples samples
	// onlyOutages is the flag -outages: there are outages and chats alone.
	onlyOutages bool
}

// run runs the traffic for the duration in the options. No verdict, or a bad one, is an error.
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
	s := &soak{site: site, meters: site.meters, onlyOutages: o.outages}
	defer site.close()
	begin, first := time.Now(), site.quiet()
	s.drive(ctx, o)
	took := time.Since(begin)
	s.end(ctx, first)
	s.report(took)
	return errors.Join(s.verdict(), ctx.Err())
}

// drive runs traffic, trouble and sampling until the time is over, Caddy has exited, or ctx ends.
func (s *soak) drive(ctx context.Context, o options) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(o.minutes*float64(time.Minute)))
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	r := rand.New(rand.NewPCG(o.seed, 1<<32))
	random := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), n)) }
	killing, stopping, reloading, failing := random(1), random(2), random(3), random(4)
	if s.onlyOutages {
		for i := range 2 {
			c := s.newClient(i, rand.New(rand.NewPCG(o.seed, uint64(i))))
			all.Go(func() { c.run(ctx, kinds[:1]) })
		}
		all.Go(func() { s.failing(ctx, failing, 2*time.Second, 3*time.Second) })
	} else {
		for i := range o.clients {
			c := s.newClient(i, rand.New(rand.NewPCG(o.seed, uint64(i))))
			all.Go(func() { c.run(ctx, kinds) })
		}
		all.Go(func() { s.killing(ctx, killing) })
		all.Go(func() { s.stopping(ctx, stopping) })
		all.Go(func() { s.reloading(ctx, reloading) })
		if s.meters != nil {
			all.Go(func() { s.moving(ctx, failing) })
			all.Go(func() { s.watchMeters(ctx) })
		} else if s.site.model.Plan != nil {
			all.Go(func() { s.failing(ctx, failing, 10*time.Second, 20*time.Second) })
		}
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
	if s.meters != nil {
		s.awaitMeters()
		s.checkShares()
	}
	if err := s.site.Caddy.Stop(exitWait); err != nil {
		s.counts.fault(fmt.Sprintf("the exit of Caddy: %v", err))
	}
	if err := errors.Join(append(s.site.checkGone(), s.site.checkLogins())...); err != nil {
		s.counts.fault(fmt.Sprintf("after the exit: %v", err))
	}
}
