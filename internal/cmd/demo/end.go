package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// untilEnd returns a context that ends on Ctrl-C, SIGTERM, a closed terminal (unless
// nohup has this process ignore that), or the end of the parent: a make that is killed
// cannot pass a signal on.
func untilEnd(parent int) (context.Context, context.CancelFunc) {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	signalled, stop := signal.NotifyContext(context.Background(), signals...)
	ctx, cancel := context.WithCancel(signalled)
	go func() {
		defer cancel()
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for os.Getppid() == parent {
			select {
			case <-signalled.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return ctx, stop
}
