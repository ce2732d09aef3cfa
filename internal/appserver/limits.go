package appserver

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// ExplainLimit returns err, the failure of a turn on this instance. If err is a *codexrpc.TurnError about a
// limit whose end is known, ExplainLimit instead returns a copy with this end as ResetsAt. For a spent meter,
// the end comes from meter, which returns what is known of the meter now, or else from the message. For
// another limit, it is the end of the last wait that the provider has asked for.
func (in *Instance) ExplainLimit(ctx context.Context, err error, meter func(context.Context) *codexrpc.Meter) error {
	var turnErr *codexrpc.TurnError
	if !errors.As(err, &turnErr) {
		return err
	}
	var at time.Time
	switch {
	case turnErr.Code == codexrpc.CodeUsageLimit:
		if at, _ = meter(ctx).Spent(time.Now()); at.IsZero() {
			at, _ = parseResetTime(turnErr.Message, time.Now())
		}
	case turnErr.HTTPStatus == http.StatusTooManyRequests, turnErr.HTTPStatus == http.StatusServiceUnavailable, turnErr.Code == "serverOverloaded":
		at = in.recentWait(ctx)
	}
	if at.IsZero() {
		return err
	}
	explained := *turnErr
	explained.ResetsAt = at
	return &explained
}

// resetPattern captures the time in Codex's message about a spent plan, such as "try again at 8:07
// AM" or "try again at Nov 23rd, 2026 2:05 PM".
var resetPattern = regexp.MustCompile(`try again at (?:([A-Z][a-z]{2} \d{1,2})(?:st|nd|rd|th), (\d{4}) )?(\d{1,2}:\d{2} [AP]M)`)

// parseResetTime returns the time that a message about a spent plan names, or false if the message
// names no future time. Codex writes the time in the local zone, without seconds. Since the plan
// may reset at any second of that minute, parseResetTime returns the minute's end.
func parseResetTime(message string, now time.Time) (time.Time, bool) {
	match := resetPattern.FindStringSubmatch(message)
	if match == nil {
		return time.Time{}, false
	}
	day := match[1] + " " + match[2]
	if match[1] == "" {
		day = now.Format("Jan 2 2006")
	}
	at, err := time.ParseInLocation("Jan 2 2006 3:04 PM", day+" "+match[3], now.Location())
	if err != nil {
		return time.Time{}, false
	}
	if at = at.Add(time.Minute); match[1] == "" && at.Before(now) {
		at = at.AddDate(0, 0, 1) // a time without a day that is over today is tomorrow's
	}
	return at, at.After(now)
}

const (
	// maxWaitAge is how long a wait that the provider has asked for explains the failures after it.
	maxWaitAge = time.Second
	// logLag is how long recentWait waits for the log line that explains a failure. It looks every logPoll.
	logLag, logPoll = 100 * time.Millisecond, 10 * time.Millisecond
)

// askedWait records that the model's provider has refused a request at askedAt, and has asked to wait until
// the time until. Only the app-server's log reports that.
type askedWait struct{ askedAt, until time.Time }

// recentWait returns the time until which the provider has asked to wait; zero: the provider has not asked
// within the last maxWaitAge. Before it returns zero, recentWait waits up to logLag, since the log line may
// be read after the failure.
func (in *Instance) recentWait(ctx context.Context) time.Time {
	for end := time.Now().Add(logLag); ; time.Sleep(logPoll) {
		if wait := in.wait.Load(); wait != nil && time.Since(wait.askedAt) < maxWaitAge {
			return wait.until
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return time.Time{}
		}
	}
}
