package e2e

import (
	"regexp"
	"strings"
)

// createdAt begins the part of a race report that says where the goroutines were created.
var createdAt = regexp.MustCompile(`(?m)^Goroutine \d+ \(`)

// racesIn returns the reports of the race detector in a log in which this module accesses the memory.
// A race between Caddy and Caddy, or within a library, is not this module's.
func racesIn(log string) (reports []string) {
	const begin, end = "WARNING: DATA RACE\n", "\n=================="
	for _, report := range strings.Split(log, begin)[1:] {
		report, _, _ = strings.Cut(report, end)
		accesses := report
		if at := createdAt.FindStringIndex(report); at != nil {
			accesses = report[:at[0]]
		}
		if strings.Contains(accesses, "github.com/caddy-codex/") {
			reports = append(reports, report)
		}
	}
	return reports
}
