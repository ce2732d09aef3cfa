// Package appserver keeps a `codex app-server` running, or stays connected to
// one that runs elsewhere.
//
// A [Process] starts the program in a private home, shakes hands with it, starts
// it again when it fails, replaces it when it hangs or grows too large, and stops
// it with everything that it has started. [Process.Conn] is the connection to
// the instance that takes new turns.
package appserver
