// Package simulation runs the whole gateway in one process, against clients and
// app-servers that misbehave by plan, and checks what came of it. It has tests
// only.
//
// One run has one seed. From it a plan is drawn: the limits of the gateway, what
// the clients ask, how the answers are scripted, and which faults come when. The
// run then plays in a bubble of testing/synctest, where time is virtual: real are
// net/http's server and client with HTTP/1 and HTTP/2, internal/gateway, its
// queue and its store, internal/turn, the encoders, and codexrpc's processes and
// connections. Doubles are the network, the app-servers (internal/test/fakecodex with
// generated turns) and the part of caddymodule that holds processes over reloads,
// since Caddy keeps its state once for the whole program.
//
// Each request has a token of its own, and all that the app-server says in its
// turns is derived from that. So a byte that was lost, doubled, moved or another
// caller's is seen. The checks are, for each run:
//
//   - each answer that its own client did not cut off has one proper end,
//   - a whole answer is what the script says, a failed one a prefix of it, with a
//     code that a fault of the plan explains,
//   - what reaches the app-server is what the client sent,
//   - nothing is left: goroutines, slots, leases, references to processes,
//     threads and turns of the app-server, responses under way,
//   - after all faults, a last request that takes all slots succeeds,
//   - no handler has panicked.
//
// # Repeating a run
//
// A failure prints its seed, the plan and a trace of the events.
//
//	make simulate SEED=n
//
// repeats it. The plan, the times and the bytes at which faults come are the
// same then. The order of goroutines that can run at the same instant is the
// runtime's choice, and so are the ids that the gateway makes up; a failure that
// depends on those may need several runs:
//
//	make simulate SEED=n COUNT=100
package simulation
