package appserver

import (
	"math/rand/v2"
	"time"
)

// backoff returns the pauses between the starts of a program that keeps failing.
type backoff struct {
	first, most time.Duration
	stable      time.Duration // a program that was ready for so long is stable
	failures    int           // in a row
}

func newBackoff() backoff {
	return backoff{first: 100 * time.Millisecond, most: 30 * time.Second, stable: 30 * time.Second}
}

// next counts a failure and returns the pause before the next start. It doubles from
// first to most, less up to a random quarter so that many processes do not restart
// in step.
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

// isStable reports whether a program that was ready for so long is stable.
func (b *backoff) isStable(ready time.Duration) bool { return ready >= b.stable }
