package main

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// maxPrinted bounds the faults that are printed.
const maxPrinted = 50

// counts counts the outcomes of requests.
type counts struct {
	mu       sync.Mutex
	asked    int // all requests
	whole    int // with the wanted answer or refusal
	failed   int // with a proper failure during trouble
	left     int // that the client left
	opened   int // attempts
	lost     int // attempts lost with the listener of an old configuration
	faults   int
	byKind   map[string]int
	failures map[string]int // proper failures by code
}

func (c *counts) add(change func(c *counts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKind == nil {
		c.byKind, c.failures = make(map[string]int), make(map[string]int)
	}
	change(c)
}

// fault counts and prints a fault.
func (c *counts) fault(what string) {
	c.add(func(c *counts) { c.faults++ })
	if c.faultCount() <= maxPrinted {
		fmt.Fprintf(os.Stderr, "%s FAULT %s\n", time.Now().Format("15:04:05.000"), what)
	}
}

func (c *counts) faultCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults
}

func (c *counts) line() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%d requests: %d whole, %d failed in trouble, %d left, %d of %d attempts lost; %d faults",
		c.asked, c.whole, c.failed, c.left, c.lost, c.opened, c.faults)
}
