// Package codexrpc is a client of `codex app-server`, the JSON-RPC process
// behind OpenAI's Codex.
//
// The package has three layers, each usable without the one above it:
//
//   - [Transport] moves whole messages. [NewStdio] is the one over a pair of
//     pipes: one JSON object a line, without a "jsonrpc" member.
//   - [Conn] multiplexes calls, notifications and the server's own requests
//     over a transport. One goroutine reads and never waits for a consumer:
//     each thread has a bounded queue, and events reach it by thread and turn
//     id only.
//   - [Process] supervises the program: it starts it, shakes hands, restarts
//     it with backoff, and stops it with everything that it has started.
//
// It knows neither Caddy nor the OpenAI API. The shapes are those of
// codex-cli 0.169.0 as `codex app-server generate-ts --experimental` prints
// them; what is unknown is counted (see [Stats]) and never guessed.
package codexrpc
