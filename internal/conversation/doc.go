// Package conversation owns the threads of conversations: a [Session] finds the thread in which a
// conversation can go on, or starts one, starts its turn again if that has failed before its first
// output, and keeps the thread for the next request or unloads it. [Threads] has those of an
// app-server that wait.
//
// A request carries its whole conversation. If all of it but the newest messages
// is what a kept thread holds, those messages can be put to that thread, and the
// provider finds its prompt cache warm. Whether it is the same is decided by a
// chain of hashes: an [Identity] over everything that the thread was started
// with, then one [Link] for each message of the assistant in the history
// ([NewChain]). A thread is kept under the hash of the history that it holds,
// which is the chain of its last request extended by what the client was given
// ([Chain.After]).
//
// The hashes are over a canonical form, so that what clients do to an answer
// before they send it back does not matter: white space around texts, messages
// that are joined or parted, other ids of calls, arguments written anew, and
// reasoning, which is left out. Everything else has to be equal.
//
// [Memory] holds the reasoning of answers, for threads that are made of a history because there is
// none to go on in.
package conversation
