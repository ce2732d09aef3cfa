package main

import (
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// lookEvery is the interval of readings.
const lookEvery = 100 * time.Millisecond

// usage is the CPU time and memory of processes.
type usage struct {
	caddy, codex         time.Duration // CPU
	caddyPeak, codexPeak int           // resident memory of one process in kB
	allPeak              int           // of all codex processes together; an old one may drain beside a new one
}

// watcher reads the usage of Caddy and the processes below it repeatedly, since the
// numbers of a codex that is replaced are gone in the end.
type watcher struct {
	caddy       int
	quit, ended chan struct{}
	first, last usage
	cpu         map[int]time.Duration // by process
}

// watch starts a watcher. The caller ends it.
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

// end ends the watcher and returns the first and the last reading.
func (w *watcher) end() (before, after usage) {
	close(w.quit)
	<-w.ended
	return w.first, w.last
}

// look takes a reading.
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
