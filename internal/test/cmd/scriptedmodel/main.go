// Command scriptedmodel serves the scripted model on a loopback address, so that
// Codex can be tried without an account.
//
// It prints the base URL to put into Codex's configuration, and serves until it
// is interrupted:
//
//	scriptedmodel [-listen 127.0.0.1:0] [-chunk 16] [-delay 0s]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "scriptedmodel:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. It writes the base URL to out, and what the flags
// have to say to usage.
func run(ctx context.Context, args []string, out, usage io.Writer) error {
	flags := flag.NewFlagSet("scriptedmodel", flag.ContinueOnError)
	flags.SetOutput(usage)
	listen := flags.String("listen", "127.0.0.1:0", "loopback `address` to serve on; port 0: any free one")
	chunk := flags.Int("chunk", 0, "`bytes` of a delta; -1: everything in one (default 16)")
	delay := flags.Duration("delay", 0, "pause before each delta but the first")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *chunk < scriptedmodel.ChunkAll || *delay < 0 {
		return errors.New("-chunk and -delay must not be negative, but for -chunk -1")
	}
	listener, err := listenLoopback(*listen)
	if err != nil {
		return err
	}
	model := scriptedmodel.New(scriptedmodel.Options{Chunk: *chunk, Delay: *delay})
	defer model.Close()
	if _, err := fmt.Fprintf(out, "http://%s/v1\n", listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	return serve(ctx, listener, model)
}

// listenLoopback refuses addresses that others can reach: the model asks for no
// key.
func listenLoopback(address string) (net.Listener, error) {
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	if !addr.IP.IsLoopback() {
		return nil, fmt.Errorf("%s is not a loopback address", address)
	}
	return net.ListenTCP("tcp", addr)
}

// serve serves model until ctx ends, then cuts its streams.
func serve(ctx context.Context, listener net.Listener, model *scriptedmodel.Server) error {
	const headerTimeout = 10 * time.Second
	server := &http.Server{Handler: model, ReadHeaderTimeout: headerTimeout}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	model.Close()
	err := server.Close()
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
