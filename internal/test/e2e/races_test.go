package e2e

import "testing"

// report is a race report with these functions in the stacks of its accesses.
func report(write, read string) string {
	return "==================\nWARNING: DATA RACE\nWrite at 0x00c000126018 by goroutine 8:\n  " + write + "()\n      file.go:12 +0x44\n\n" +
		"Previous read at 0x00c000126018 by goroutine 7:\n  " + read + "()\n      file.go:9 +0x3e\n\n" +
		"Goroutine 8 (running) created at:\n  github.com/caddy-codex/caddy-codex/internal/gateway.start()\n      file.go:11 +0x30\n==================\n"
}

// Only a report with an access by this module counts, whoever created the goroutines.
func TestRacesIn(t *testing.T) {
	const ours, others = "github.com/caddy-codex/caddy-codex/internal/gateway.serve", "github.com/caddyserver/caddy/v2/modules/caddytls.(*TLS).Start"
	for _, c := range []struct {
		log  string
		want int
	}{
		{`{"level":"info"}` + "\n", 0},
		{report(others, others), 0},
		{report(ours, others), 1},
		{report(others, ours) + `{"level":"info"}` + "\n" + report(others, others) + report(ours, ours), 2},
		{"WARNING: DATA RACE\nWrite by goroutine 8:\n  " + ours, 1}, // the process ended meanwhile
	} {
		if got := racesIn(c.log); len(got) != c.want {
			t.Errorf("%d reports of %d in %s", len(got), c.want, c.log)
		}
	}
}
