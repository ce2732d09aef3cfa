// Command fakeserver is the fake app-server as a program, for tests whose binary starts slowly.
package main

import "github.com/caddy-codex/caddy-codex/internal/test/fakeserver"

func main() { fakeserver.Main() }
