//go:build !linux

package gateway

import "time"

var testStart = time.Now()

// cpuTime is a clock where threads have none of their own.
func cpuTime() time.Duration { return time.Since(testStart) }
