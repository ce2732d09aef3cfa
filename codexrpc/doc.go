// Package codexrpc is a client of `codex app-server`, the JSON-RPC program
// behind OpenAI's Codex.
//
// A [Transport] moves whole messages: [NewStdio] over a pair of pipes, one JSON
// object a line, and [DialWebSocket] over a WebSocket. A [Conn] multiplexes
// calls, notifications and the server's own requests over a transport. One
// goroutine reads and never waits for a consumer: each [Thread] has a bounded
// queue, and events reach it by thread and turn id only.
//
// Package appserver, below this one, starts and supervises the program. Both
// know neither Caddy nor the OpenAI API. The shapes are those of codex-cli
// 0.169.0 as `codex app-server generate-ts --experimental` prints them. Unknown
// messages are counted (see [Stats]) and have no other effect.
package codexrpc
