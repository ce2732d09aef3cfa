// Package responses is the wire format of the Responses API.
//
// [Decode] checks the body of a request, [Request.Resolve] adds what the request refers
// to, and [Request.Plan] maps it to Codex. One fold makes a Response of the outputs of
// a turn: [Stream] sends it as events and [Body] returns it as one object, so that both
// forms have the same answer.
package responses
