package appserver

import (
	"math/rand/v2"
	"time"
)

// backoff makes the pauses between starts of a process that keeps failing.
type backoff struct {
	first, most time.Duration
	stable      time.Duration // ready for so long, failures are forgotten
	failures    int           // in a row
}

func newBackoff() backoff {
	return backoff{first: 100 * time.Millisecond, most: 30 * time.Second, stable: 30 * time.Second}
}

// next returns the pause before the next start: doubling from first to most,
// with up to a quarter off so that a fleet does not restart in step.
func (b *backoff) next() time.Duration {
	pause := b.first
	for range b.failures {
		if pause >= b.most {
			break
		}
		pause *= 2
	}
	b.failures++
	pause = min(pause, b.most)
	return pause - rand.N(pause/4+1)
}

// isStable reports whether a process that was ready for so long was sound.
func (b *backoff) isStable(ready time.Duration) bool { return ready >= b.stable }

// lasted tells how long the process was ready before it failed.
func (b *backoff) lasted(ready time.Duration) {
	if b.isStable(ready) {
		b.failures = 0
	}
}
