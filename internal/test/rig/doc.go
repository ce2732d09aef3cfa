// Package rig runs a Caddy process and reads the CPU time, memory and files of the processes below
// it, for programs that measure and stress whole processes. It works on Linux only.
package rig
