package replay

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/recorder"
)

// answer is what went out to a client.
type answer struct {
	status string
	writes []recorder.Entry
	text   string
	reads  int // how often events were read
}

// retryAfter matches a header that may say when a limit of the login ends, which is not in the recording.
var retryAfter = regexp.MustCompile(`"Retry-After":"\w+",?`)

// answerIn returns the answer in a recording.
func answerIn(entries []recorder.Entry) *answer {
	a := new(answer)
	for _, e := range entries {
		if e.Dir == recorder.ToClient {
			a.status += retryAfter.ReplaceAllString(string(e.Message), "")
			a.text += e.Text
			a.writes = append(a.writes, e)
		}
		if e.Dir == recorder.Read && e.Note == "" {
			a.reads++
		}
	}
	a.text = strings.TrimRight(a.text, string(utf8.RuneError)) // of a rune that was cut off
	return a
}

// vary matches what differs from answer to answer: ids, times, what is sealed, and a hash of the release of Codex.
var vary = regexp.MustCompile(`\b(?:fp|chatcmpl|resp|msg|rs|fc|call|toolu|conv|cmp|ws|ig|req|tool_\d+_\d+)[_-][0-9A-Za-z_-]+` +
	`|"(?:created|created_at|completed_at|expires_at|[a-z_]+_duration)":(?:[0-9.]+|"[^"]*")` +
	`|codex-sealed-1\.[\w-]+`)

// estimated matches the tokens at the beginning of a message. They are an estimate, also of what is sealed.
var estimated = regexp.MustCompile(`(event: message_start\n[^\n]*?"input_tokens":)\d+`)

// fixed returns a text without what varies: the k-th id becomes k, and a time or a sealed text its name.
func fixed(text string) string {
	known := make(map[string]string)
	return vary.ReplaceAllStringFunc(estimated.ReplaceAllString(text, "${1}0"), func(found string) string {
		if strings.HasPrefix(found, "codex-sealed") {
			return "sealed"
		}
		if at := strings.LastIndex(found, `":`); at > 0 {
			return found[:at] + `":0`
		}
		if known[found] == "" {
			at := strings.IndexAny(found, "_-")
			known[found] = found[:at+1] + strconv.Itoa(len(known))
		}
		return known[found]
	})
}

// differs compares two answers. It returns where they differ first, or nothing. If part is true, the client has
// left, and a is the beginning of the answer.
func (a *answer) differs(got *answer, part, texts bool) string {
	if part {
		if end := strings.LastIndexByte(a.text, '\n'); !texts {
			a.text = a.text[:end+1] // the rest is masked in another way, since it is no JSON
		}
		got.text = got.text[:min(len(got.text), len(a.text))]
	}
	want, have := a.status+"\n"+fixed(a.text), got.status+"\n"+fixed(got.text)
	if want == have {
		return ""
	}
	at := 0
	for at < min(len(want), len(have)) && want[at] == have[at] {
		at++
	}
	around := func(s string) string { return s[max(0, at-120):min(len(s), at+240)] }
	return fmt.Sprintf("byte %d%s differs:\nrecorded %q\nreplayed %q", at, a.entryAt(at-len(a.status)-1), around(want), around(have))
}

// entryAt says in which entry a byte of the text without ids is.
func (a *answer) entryAt(at int) string {
	text := ""
	for _, e := range a.writes {
		if text += e.Text; len(fixed(text)) > at {
			return fmt.Sprintf(", written after %s ms,", strconv.FormatFloat(float64(e.At)/1e6, 'f', 3, 64))
		}
	}
	return ""
}
