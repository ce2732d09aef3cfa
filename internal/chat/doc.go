// Package chat is the wire of the chat completions API.
//
// [Decode] checks the body of a request and keeps views into it; [Request.Plan] maps it
// to what a Codex thread and turn need. On the way back a turn speaks in [turn.Output]
// values: [Stream] encodes them as chunks of a stream and [Body] folds the very same
// outputs into one body, so that both forms carry the same answer.
package chat
