// Package rig runs the built Caddy as a process of its own and looks at what it
// and the processes that it has started use. It is for programs that measure and
// strain whole processes, and knows Linux alone.
package rig
