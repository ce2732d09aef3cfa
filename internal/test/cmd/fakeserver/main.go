// Command fakeserver is the fake app-server as a program of its own, for tests whose binary takes
// long to start.
package main

import "github.com/caddy-codex/caddy-codex/internal/test/fakeserver"

func main() { fakeserver.Main() }
