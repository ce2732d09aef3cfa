// Package conversation manages the threads of conversations. A thread is Codex's conversation with the
// model, and a turn is one answer in it. [Opener.Open] starts a request's turn: in a thread that already
// has the conversation, or in a new one. [Turn.Run] runs the turn. If the turn fails before its first
// output, Run may start it again, see the table of remedies. [Turn.Close] keeps the thread for the next
// request, or unloads it. [Threads] has an app-server's kept threads.
//
// A request carries its whole conversation. If a kept thread has all but the newest messages, only those
// are sent to it, and the provider finds the rest in its prompt cache. Hashes decide which thread fits.
// [NewChain] hashes a request's history: the [Chain] has a [Link] for each answer, with the hash of the
// history up to the end of the answer. Each hash also covers the [Identity]: what a conversation's requests
// have in common besides the messages. A kept thread has the hash of its last request's history, followed
// by the answer that the client got ([Chain.After]). The thread fits if this hash is in the chain.
//
// Clients may change an answer before they send it back, so the hashes are of a canonical form, in
// which these changes make no difference: white space around texts, joined or split messages, other
// ids of calls, arguments in another spelling, and reasoning, which is left out. Everything else
// has to be equal.
package conversation
