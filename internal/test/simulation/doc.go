// Package simulation runs the whole gateway in one process, with clients and
// app-servers that misbehave as planned, and checks the answers. It has tests only.
//
// A run has a seed, from which its plan is drawn: the limits of the gateway, the requests, the
// answers, and the faults with their times. It runs in a bubble of testing/synctest, with virtual
// time. These parts are real: net/http's server and client with HTTP/1 and HTTP/2, internal/gateway
// with its queue and store, internal/turn, the encoders, and the processes and connections of
// codexrpc. The network and the app-servers are doubles (internal/test/fakecodex with generated
// turns). So is the part of caddymodule that keeps processes over reloads, since Caddy has one
// state for the whole program.
//
// Clients go on with their conversations: they extend them, send the results of calls,
// too late or not all of them, edit questions and answers, ask again, and send what is the
// conversation of another client.
//
// In some plans clients have conversations that outgrow the window of their model, with the Responses API in each
// of its ways, and with chat completions. The double of the app-server counts tokens a little differently from
// the gateway and refuses what is too long. Its summaries list the facts that it was sent, that is where each
// text comes from; sometimes it calls a tool instead, writes nothing, or breaks off. Clients drop what comes
// before a summary or keep it, and send summaries that they have changed or got from other users.
//
// In some plans logins refuse a model for a while, since a meter of theirs is spent. Other models, and the other
// login, go on.
//
// In some plans a user takes all of one thing that can be held: bodies, answers that are not
// read, the memory of app-servers by clients that leave, events that are not followed, background responses with large instructions, or the
// store. What another user needs beside that must be served at once.
//
// Each request has a token, and everything that the app-server says in its turns is
// derived from it. So the checks find bytes that are lost, repeated, moved, or another
// caller's. Each run checks that
//
//   - each answer that its client did not cut off has one proper end,
//   - a complete answer is that of the script, and a failed one is a prefix of it,
//     with a code that a planned fault explains,
//   - the model is given what the client sent, no more and no less, whether in a thread
//     that was kept, in a turn that waited for results, or in a fresh thread,
//   - of a conversation that was shortened, each fact is known, and no other,
//   - without faults, each conversation goes on in its thread, also for its summary and after it,
//   - a changed summary, or another user's, is refused,
//   - no thread and no reasoning of one user is used for another,
//   - nothing is left: goroutines, slots, leases, references to processes, threads
//     and turns of the app-server, responses in progress,
//   - a last request that takes all slots succeeds after the faults,
//   - no handler has panicked.
//
// TestReplays records the requests of some runs, and replays each recording (internal/test/replay).
//
// # Repeating a run
//
// A failure prints its seed, the plan and a trace of the events. Repeat it with
//
//	make simulate SEED=n
//
// The plan, and the times and bytes of the faults, are then the same. The order of
// goroutines that can run at the same time differs, and so do the ids that the gateway
// makes. A failure that depends on those may need several runs:
//
//	make simulate SEED=n COUNT=100
package simulation
