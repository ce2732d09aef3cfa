// Package conversation manages the threads of conversations. A thread is Codex's conversation with
// the model, and a turn is one answer in it. [Opener.Open] starts the turn of a request: in a thread
// that already has the conversation, or in a new one. [Turn.Run] runs it. If it fails before its
// first output, Run may start it again, see the table of remedies. [Turn.Close] keeps the thread for
// the next request, or unloads it. [Threads] has the kept threads of an app-server.
//
// A request carries its whole conversation. If a kept thread has all of it except the newest
// messages, only those messages are sent to the thread, and the provider finds the rest in its
// prompt cache. Hashes decide which kept thread fits. [NewChain] hashes the history of a request.
// The [Chain] has a [Link] for each answer of the assistant, with the hash of the history up to the
// end of that answer. Every hash also covers the [Identity]: what the requests of a conversation
// have in common besides the messages. A kept thread fits if its own hash is one of these hashes.
// Its own hash is that of the history of its last request, followed by the answer that the client
// got ([Chain.After]).
//
// Clients may change an answer before they send it back, so the hashes are computed from a
// canonical form. In that form, these changes make no difference: white space around texts, joined
// or split messages, other ids of calls, arguments in another spelling, and reasoning, which is
// left out. Everything else has to be equal.
package conversation
