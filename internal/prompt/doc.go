// Package prompt defines what a request asks of the model, whatever API it uses, and
// maps it to Codex.
//
// A decoder fills a [Conversation], and [Conversation.Plan] maps it to a [Plan]: the
// parameters of thread/start, the history items of thread/inject_items and the
// parameters of turn/start.
package prompt
