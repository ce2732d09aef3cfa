package codexrpc

import (
	"regexp"
	"time"
)

// resetText finds the time in "… try again at 2:59 PM." or, on another day, in
// "… try again at Nov 26th, 2026 1:29 PM."
var resetText = regexp.MustCompile(`(?i:try again at )(?:([A-Z][a-z]{2} \d{1,2})(?:st|nd|rd|th), (\d{4}) )?(\d{1,2}:\d{2} [AP]M)`)

// resetInText reads when a plan resets from Codex's message, a time in the zone
// of now. Codex cuts it down to the minute; the end of that minute is safe. The
// zero time: there is none.
func resetInText(message string, now time.Time) time.Time {
	m := resetText.FindStringSubmatch(message)
	if m == nil {
		return time.Time{}
	}
	day, year := m[1], m[2]
	if day == "" {
		day, year = now.Format("Jan 2"), now.Format("2006")
	}
	at, err := time.ParseInLocation("Jan 2 2006 3:04 PM", day+" "+year+" "+m[3], now.Location())
	if err != nil {
		return time.Time{}
	}
	return at.Add(time.Minute)
}
