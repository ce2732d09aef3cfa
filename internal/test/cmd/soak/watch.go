package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// lookEvery is the interval of samples.
const lookEvery = 5 * time.Second

// sample is the use of resources at a time. Sizes are in MB.
type sample struct {
	at         time.Duration // since the start
	resident   float64       // memory of Caddy
	heap       float64       // heap of Caddy after a collection
	goroutines float64
	files      float64 // open files of Caddy
	codex      float64 // mean memory of an app-server
	codexes    int
}

type samples struct {
	mu  sync.Mutex
	all []sample
}

func (s *soak) look(begin time.Time) sample {
	pid := s.site.PID
	now := sample{
		at:         time.Since(begin),
		heap:       s.site.number("/debug/pprof/heap?gc=1&debug=1", "# HeapAlloc = ") / 1e6,
		goroutines: s.site.number("/debug/pprof/goroutine?debug=1", "goroutine profile: total "),
		resident:   float64(rig.Memory(pid)) / 1000,
		files:      float64(rig.Files(pid)),
	}
	for _, codex := range s.site.appServers() {
		if kb := rig.Memory(codex); kb > 0 {
			now.codex += float64(kb) / 1000
			now.codexes++
		}
	}
	now.codex /= float64(max(now.codexes, 1))
	return now
}

// watch takes samples until ctx ends, and prints a line per minute.
func (s *soak) watch(ctx context.Context) {
	begin := time.Now()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for minute := 1; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := s.look(begin)
		if now.heap < 0 || now.goroutines < 0 {
			continue // the admin API is restarting
		}
		s.samples.mu.Lock()
		s.samples.all = append(s.samples.all, now)
		s.samples.mu.Unlock()
		if now.at >= time.Duration(minute)*time.Minute {
			fmt.Printf("minute %d: %s; Caddy %.0f MB, heap %.1f MB, %.0f goroutines, %.0f files; %d codex of %.0f MB; %s\n",
				minute, s.counts.line(), now.resident, now.heap, now.goroutines, now.files, now.codexes, now.codex, s.trouble.line())
			minute++
		}
	}
}

// measure is a size that must not grow.
type measure struct {
	name  string
	of    func(sample) float64
	slack float64 // allowed growth in addition to a tenth
}

var measures = []measure{
	{"Caddy's resident memory, MB", func(s sample) float64 { return s.resident }, 16},
	{"Caddy's heap, MB", func(s sample) float64 { return s.heap }, 4},
	{"Caddy's goroutines", func(s sample) float64 { return s.goroutines }, 16},
	{"Caddy's files", func(s sample) float64 { return s.files }, 8},
	{"an app-server's resident memory, MB", func(s sample) float64 { return s.codex }, 32},
}

// growth compares the medians of the first and last third, after a sixth, or two minutes if less.
func (s *samples) growth(m measure) (first, last float64, flat bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return 0, 0, false
	}
	warm := min(s.all[len(s.all)-1].at/6, 2*time.Minute)
	var values []float64
	for _, one := range s.all {
		if one.at >= warm {
			values = append(values, m.of(one))
		}
	}
	third := max(len(values)/3, 1)
	first, last = median(values[:third]), median(values[len(values)-third:])
	return first, last, last <= first*1.1+m.slack
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
