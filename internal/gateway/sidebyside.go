package gateway

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
)

// sideBySide does something for all choices at once, and waits for all of them.
// The first error ends the ctx of the others, with itself as the cause, and is
// the one returned; else it is why ctx has ended, or nil. A panic goes on in the
// caller's goroutine, where the server contains it.
func (g *Gateway) sideBySide(ctx context.Context, choices []*choice, do func(context.Context, *choice) error) error {
	if len(choices) == 1 {
		return do(ctx, choices[0])
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	panics := make(chan any, len(choices))
	for _, c := range choices {
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					g.opts.Logger.LogAttrs(ctx, slog.LevelError, "a choice has panicked",
						slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
					panics <- p
					cancel(errOver)
				}
			}()
			if err := do(ctx, c); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	if len(panics) > 0 {
		panic(<-panics)
	}
	return context.Cause(ctx)
}
