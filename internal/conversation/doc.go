// Package conversation owns the threads of conversations. A [Session] finds the thread in which a
// conversation can go on, or starts one. It starts the turn again if the turn has failed before its
// first output. At the end it keeps the thread for the next request or unloads it. [Threads] has
// the threads of an app-server that wait for requests.
//
// A request carries its whole conversation. If a kept thread holds all of it but the newest
// messages, only those messages are sent to the thread, and the provider finds its prompt cache
// warm. A chain of hashes decides whether the histories are the same. It begins with an [Identity],
// which covers everything that the thread was started with. Then it has one [Link] for each answer
// of the assistant in the history ([NewChain]). A thread is kept under the hash of the history that
// it holds: the chain of its last request, extended by what the client was given ([Chain.After]).
//
// The hashes are over a canonical form, since clients change an answer before they send it back.
// These changes do not matter: white space around texts, messages that are joined or parted, other
// ids of calls, arguments written anew, and reasoning, which is left out. Everything else has to be
// equal.
//
// [Memory] holds the reasoning of answers. If no kept thread can go on, a new thread is made from
// the history, with this reasoning.
package conversation
