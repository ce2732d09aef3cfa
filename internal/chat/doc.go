// Package chat is the wire format of chat completions.
//
// [Decode] checks the body of a request and keeps views into it. [Request.Plan] maps it
// to Codex. A turn returns [turn.Output] values: [Stream] encodes them as chunks, and
// [Body] folds the same outputs into one body, so that both forms have the same answer.
package chat
