// Package openai is the OpenAI side of the proxy: it reads chat completion
// requests, turns them into what a Codex thread and turn need, and writes
// answers, streams and errors in OpenAI's shapes.
//
// A request goes through two pure steps. [DecodeChat] checks the body and
// keeps views into it; [ChatRequest.Plan] maps it to the parameters of
// thread/start, the history items of thread/inject_items and the parameters of
// turn/start. On the way back a turn speaks in [turn.Output] values:
// [ChatStream] encodes them as chunks of a stream and [ChatBody] folds the very
// same outputs into one body, so that both forms carry the same answer.
// [FromFailure] gives every failure its status, type, code and retry advice.
//
// Nothing here knows of processes or of time, nor of HTTP beyond what [Error] says.
package openai
