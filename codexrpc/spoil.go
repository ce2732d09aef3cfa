//go:build !race

package codexrpc

// spoil does nothing: see the one for tests with the race detector.
func spoil([]byte) {}
