package main

import (
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// lookEvery is the pause between two looks at the processes.
const lookEvery = 100 * time.Millisecond

// usage is what processes have used so far.
type usage struct {
	caddy, codex         time.Duration // CPU
	caddyPeak, codexPeak int           // resident memory of one process in kB
	allPeak              int           // of all of codex at once: an old one may drain beside a new one
}

// watcher follows what Caddy and all that it has started use. A codex that was
// replaced is gone with its numbers in the end, so that they are read all along.
type watcher struct {
	caddy       int
	quit, ended chan struct{}
	first, last usage
	cpu         map[int]time.Duration // by process
}

// watch begins to follow; the caller ends it.
func watch(caddy int) *watcher {
	w := &watcher{caddy: caddy, quit: make(chan struct{}), ended: make(chan struct{}), cpu: make(map[int]time.Duration)}
	w.look()
	w.first = w.last
	go func() {
		defer close(w.ended)
		for look := time.NewTicker(lookEvery); ; {
			select {
			case <-look.C:
				w.look()
			case <-w.quit:
				look.Stop()
				w.look()
				return
			}
		}
	}()
	return w
}

// end returns the first reading and the last.
func (w *watcher) end() (before, after usage) {
	close(w.quit)
	<-w.ended
	return w.first, w.last
}

// look reads what all of them use.
func (w *watcher) look() {
	u := &w.last
	u.caddy, u.caddyPeak = rig.CPU(w.caddy), rig.Memory(w.caddy, rig.Peak)
	all := 0
	for _, pid := range rig.Below(w.caddy) {
		if used := rig.CPU(pid); used > 0 {
			w.cpu[pid] = used
		}
		all += rig.Memory(pid, rig.Resident)
		u.codexPeak = max(u.codexPeak, rig.Memory(pid, rig.Peak))
	}
	u.allPeak = max(u.allPeak, all)
	u.codex = 0
	for _, used := range w.cpu {
		u.codex += used
	}
}
