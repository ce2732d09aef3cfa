package codexrpc_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"path/filepath"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// connect connects to an app-server, here to one that plays a recording of Codex. A program
// gives [codexrpc.NewStdio] the pipes of `codex app-server`, or calls
// [codexrpc.DialWebSocket].
func connect(ctx context.Context) *codexrpc.Conn {
	recordings, err := fakecodex.Load(filepath.Join("..", "testdata", "transcripts"))
	if err != nil {
		log.Fatal(err)
	}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	go func() {
		err := fakecodex.Serve(ctx, in, out, fakecodex.Options{Transcripts: recordings, Default: "text"})
		_ = out.CloseWithError(err)
	}()
	conn := codexrpc.NewConn(codexrpc.NewStdio(fromServer, toServer), nil)
	if _, err := conn.Initialize(ctx, codexrpc.ClientInfo{Name: "example", Version: "1"}); err != nil {
		log.Fatal(err)
	}
	return conn
}

// A turn: a thread is started, asked, and its events are read.
func ExampleThread_Events() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	conn := connect(ctx)
	defer conn.Close()
	thread, err := conn.StartThread(ctx, codexrpc.ThreadStartParams{Model: "gpt-5"})
	if err != nil {
		log.Fatal(err)
	}
	defer thread.Close(nil)
	question := []codexrpc.UserInput{{Type: "text", Text: "say hello"}}
	if err := thread.StartTurn(ctx, codexrpc.TurnStartParams{Input: question}); err != nil {
		log.Fatal(err)
	}
	for event, err := range thread.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch event.Kind {
		case codexrpc.EventTextDelta:
			fmt.Print(event.Text)
		case codexrpc.EventTurnCompleted:
			fmt.Println("\n" + event.Status)
		}
	}
	// Output:
	// Plain text in a few small pieces, without any tools.
	// completed
}

// A method that this package has no function for.
func ExampleCall() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	conn := connect(ctx)
	defer conn.Close()
	type models struct {
		Data []struct{ ID string }
	}
	answer, err := codexrpc.Call[models](ctx, conn, "model/list", map[string]any{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(answer.Data) > 0)
	// Output: true
}
