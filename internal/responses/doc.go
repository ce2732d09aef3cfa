// Package responses is the wire of the Responses API.
//
// [Decode] checks the body of a request, [Request.Resolve] puts what it refers to in its
// place, and [Request.Plan] maps it to what a Codex thread and turn need. On the way
// back one fold makes a Response of the outputs of a turn: [Stream] shows it as events
// and [Body] as one object, so that both forms carry the same answer.
package responses
