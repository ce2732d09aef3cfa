package e2e

import (
	"regexp"
	"strings"
)

// createdAt begins the part of a race report that says where the goroutines were created.
var createdAt = regexp.MustCompile(`(?m)^Goroutine \d+ \(`)

// racesIn returns a log's race reports with an access by this module, not by others alone.
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
