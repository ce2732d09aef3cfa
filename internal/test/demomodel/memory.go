package demomodel

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

var (
	tells     = regexp.MustCompile(`(?i)\b(?:my ((?:[\pL]+ )?[\pL]+) is|(?:i am called|call me|i am|i'm)) ([\pL\d][\pL\d '’-]{0,40})`)
	asks      = regexp.MustCompile(`(?i)\b(?:what(?:'s| is|s| was)|(?:do you )?(?:know|remember|recall)|tell me) my ((?:[\pL]+ )?[\pL]+)`)
	whoAmI    = regexp.MustCompile(`(?i)\bwho am i\b|how am i called`)
	whatFirst = regexp.MustCompile(`(?i)what (did i|was the) .*\bfirst\b|what was my first`)
)

// recollection answers what the conversation so far has the answer to.
func recollection(q question) string {
	earlier := q.earlier()
	wanted := ""
	if match := asks.FindStringSubmatch(q.text); match != nil {
		wanted = strings.ToLower(match[1])
	} else if whoAmI.MatchString(q.text) {
		wanted = "name"
	}
	switch {
	case wanted != "":
		for _, text := range slices.Backward(earlier) {
			if value := told(text, wanted); value != "" {
				return fmt.Sprintf("Your %s is **%s**. You have told me so.", plain(wanted), plain(value))
			}
		}
		return fmt.Sprintf("You have not told me your %s yet. Say *\"my %[1]s is …\"*, and ask again.", plain(wanted))
	case len(earlier) > 0 && whatFirst.MatchString(q.text):
		return "You began with:\n\n> " + plain(abridge(strings.TrimSpace(earlier[0]), 200))
	}
	if name := told(q.text, "name"); name != "" && len(q.text) < maxEnds && !strings.Contains(q.text, "?") {
		return fmt.Sprintf("Nice to meet you, **%s**! Ask me later what your name is: I'll remember it for this conversation.", plain(name))
	}
	return ""
}

// told returns what a text says about something of the user's, such as the name.
func told(text, about string) string {
	for _, match := range tells.FindAllStringSubmatch(ends(text), -1) {
		value := strings.TrimSpace(match[2])
		if match[1] == "" { // "I'm Ada", but not "I'm tired"
			value, _, _ = strings.Cut(value, " ")
			if about != "name" || strings.ToUpper(value[:1]) != value[:1] {
				continue
			}
		} else if !strings.EqualFold(match[1], about) {
			continue
		}
		for _, end := range []string{" and ", " but ", " what ", " who "} {
			value, _, _ = strings.Cut(value, end)
		}
		return strings.TrimSpace(value)
	}
	return ""
}

var clockAsked = regexp.MustCompile(`\b(what (time|day|date|year)|today's date|current (time|date)|the time\b)`)

// clock answers questions for the time.
func clock(q question) string {
	if !clockAsked.MatchString(q.short) || len(q.text) > maxEnds {
		return ""
	}
	return time.Now().Format("It is **15:04** on *Monday, 2 January 2006*, where this server runs.")
}
