// Package completions is the wire of the legacy completions API, POST /v1/completions.
//
// [Decode] checks the body of a request, which becomes a conversation of one message. On
// the way back [Stream] and [Body] encode the texts of the outputs of its turns.
package completions
