package gateway

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"

	"golang.org/x/sync/errgroup"
)

// errPanicked ends the other choices when one has panicked, and a background response.
var errPanicked = errors.New("the server has failed while it made the answer")

// sideBySide calls do for all choices at once, and waits for all calls. The first
// error ends the context of the others, with itself as the cause, and is returned. A
// panic goes on in the caller's goroutine, where the server recovers it.
func (g *Gateway) sideBySide(ctx context.Context, choices []*choice, do func(context.Context, *choice) error) error {
	if len(choices) == 1 {
		return do(ctx, choices[0])
	}
	panics := make(chan any, len(choices))
	all, ctx := errgroup.WithContext(ctx)
	for _, c := range choices {
		all.Go(func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					g.opts.Logger.LogAttrs(ctx, slog.LevelError, "a choice has panicked",
						slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
					panics <- p
					err = errPanicked
				}
			}()
			return do(ctx, c)
		})
	}
	err := all.Wait()
	if len(panics) > 0 {
		panic(<-panics)
	}
	return err
}
