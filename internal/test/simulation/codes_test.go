package simulation

import (
	"cmp"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// checkCode checks that the plan explains a failure.
func (r *run) checkCode(a *answer, code string, status int) {
	if !slices.Contains(r.explained(a), code) {
		r.fail("%s: a failure that nothing explains: %d %q: %.500q", a.request.Token, status, code, tail(a.body))
	}
}

// explained returns the codes with which a request may fail.
func (r *run) explained(a *answer) (codes []string) {
	p, q := r.plan, a.request
	if !p.Calm && a.user != modestUser {
		codes = append(codes, "codex_queue_full", "codex_queue_timeout", "codex_body_memory")
	}
	if r.exit.Err() != nil {
		codes = append(codes, "server_shutting_down")
	}
	if q.Bad != "" {
		codes = append(codes, "", "invalid_json", "invalid_type", "invalid_value", "missing_required_parameter", "request_too_large")
	}
	if q.Stuck || q.Trickle > 0 {
		codes = append(codes, "request_timeout")
	}
	if q.Choices > p.Config.heaviest() {
		codes = append(codes, "") // for n
	}
	if q.Follow {
		codes = append(codes, "context_length_exceeded") // the history is above the limit of a body
	}
	if q.CancelIn > 0 {
		codes = append(codes, "response_cancelled")
	}
	for _, end := range append(q.Ends, q.Script.End) {
		codes = append(codes, endCodes[end]...)
	}
	killed, hung, busy := r.faults()
	if killed {
		codes = append(codes, "codex_exited", "codex_not_ready")
	}
	if hung {
		codes = append(codes, "codex_idle_timeout", "codex_timeout", "codex_not_ready", "codex_unresponsive", "codex_exited")
	}
	if busy {
		codes = append(codes, "codex_overloaded", "codex_not_ready")
	}
	if p.mayBeSpent(q.Model) {
		codes = append(codes, "insufficient_quota", "rate_limit_exceeded")
	}
	switch q.API {
	case apiclient.Responses:
		if len(codes) > 0 {
			codes = append(codes, "server_error") // the only code that OpenAI has for them in a stream
		}
	case apiclient.Messages:
		for i, code := range codes {
			codes[i] = cmp.Or(errorTypes[code], "api_error")
		}
	}
	return codes
}

// endCodes are the codes for what may end a turn.
var endCodes = map[end][]string{
	endFailed:  {"upstream_error", "server_error"},
	endSilent:  {"codex_idle_timeout"},
	endOutside: {"codex_interrupted"},
	endTooLong: {"context_length_exceeded", "invalid_prompt"},
	endNothing: {"no_summary", "invalid_prompt"},
	endAlone:   {"invalid_prompt"}, // any failure of a summary is a 400
}

// errorTypes are the types of errors that messages have for codes. For others it is api_error.
var errorTypes = map[string]string{
	"": "invalid_request_error", "invalid_json": "invalid_request_error", "invalid_type": "invalid_request_error", "invalid_value": "invalid_request_error",
	"missing_required_parameter": "invalid_request_error", "context_length_exceeded": "invalid_request_error", "no_summary": "invalid_request_error", "invalid_prompt": "invalid_request_error", "request_too_large": "request_too_large",
	"codex_queue_full": "rate_limit_error", "insufficient_quota": "rate_limit_error", "codex_overloaded": "overloaded_error",
	"request_timeout": "timeout_error", "codex_timeout": "timeout_error", "codex_idle_timeout": "timeout_error",
}

// faults returns which kinds of faults of app-servers the plan has.
func (r *run) faults() (killed, hung, busy bool) {
	for _, e := range r.plan.Events {
		killed = killed || e.What == killAll
	}
	for _, l := range r.plan.Lives {
		hung = hung || l.HangAfter > 0 || len(l.Faults.Mute) > 0
		killed = killed || !l.sound()
		busy = busy || l.Faults.Overload > 0
	}
	return killed, hung, busy
}
