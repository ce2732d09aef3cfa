package scriptedmodel

import "context"

// Plan limits and counts the requests of a login ([WithPlan]). It is safe for concurrent use.
type Plan interface {
	// Refuse returns how a request for a model is refused; nil: it is answered.
	Refuse(model string) *UsageLimit
	// Header is sent with an answer over HTTP, Event before one over a WebSocket; nil: nothing is.
	Header(model string) map[string]string
	Event(model string) []byte
	// Count counts what an answer has used, before its last event is sent.
	Count(model string, used Usage)
}

type planKey struct{}

// WithPlan returns a context for requests that a plan limits and counts. Warm-ups are free.
func WithPlan(ctx context.Context, plan Plan) context.Context {
	return context.WithValue(ctx, planKey{}, plan)
}

// unlimited is the plan of requests without one.
type unlimited struct{}

func (unlimited) Refuse(string) *UsageLimit       { return nil }
func (unlimited) Header(string) map[string]string { return nil }
func (unlimited) Event(string) []byte             { return nil }
func (unlimited) Count(string, Usage)             {}

// planOf returns the plan of a request or handshake.
func planOf(ctx context.Context) Plan {
	if plan, ok := ctx.Value(planKey{}).(Plan); ok {
		return plan
	}
	return unlimited{}
}
