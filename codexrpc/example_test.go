package codexrpc_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"path/filepath"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// connect connects to an app-server, here to one that plays this recording of Codex. A program
// gives [codexrpc.NewStdio] the pipes of `codex app-server`.
func connect(ctx context.Context, recording string) *codexrpc.Conn {
	recordings, err := fakecodex.Load(filepath.Join("..", "testdata", "transcripts"))
	if err != nil {
		log.Fatal(err)
	}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	go func() {
		err := fakecodex.Serve(ctx, in, out, fakecodex.Options{Transcripts: recordings, Default: recording})
		_ = out.CloseWithError(err)
	}()
	conn := codexrpc.NewConn(codexrpc.NewStdio(fromServer, toServer), codexrpc.Options{})
	if _, err := conn.Initialize(ctx, codexrpc.ClientInfo{Name: "example", Version: "1"}); err != nil {
		log.Fatal(err)
	}
	return conn
}

// A turn: a thread is started, asked, and its events are read.
func ExampleThread_Events() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	conn := connect(ctx, "text")
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

// A program that approves what Codex asks for, and sees the notifications that are no events.
func ExampleOptions() {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	defer out.Close()
	conn := codexrpc.NewConn(codexrpc.NewStdio(fromServer, toServer), codexrpc.Options{
		Answer: func(method string, params json.RawMessage) any {
			if method == "item/commandExecution/requestApproval" {
				return map[string]string{"decision": "accept"}
			}
			return nil // the default: nothing is granted
		},
		Notified: func(method string, _ json.RawMessage) { fmt.Println(method) },
	})
	defer conn.Close()
	fmt.Fprintln(out, `{"method":"skills/changed","params":{}}`)
	fmt.Fprintln(out, `{"id":1,"method":"item/commandExecution/requestApproval","params":{"command":"ls"}}`)
	answer, _ := bufio.NewReader(in).ReadString('\n')
	fmt.Print(answer)
	// Output:
	// skills/changed
	// {"id":1,"result":{"decision":"accept"}}
}

// A method that this package has no function for.
func ExampleCall() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	conn := connect(ctx, "text")
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

// A notification, which has no answer. What the app-server gets is printed here.
func ExampleConn_Notify() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	defer out.Close()
	conn := codexrpc.NewConn(codexrpc.NewStdio(fromServer, toServer), codexrpc.Options{})
	defer conn.Close()
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		line, _ := bufio.NewReader(in).ReadString('\n')
		fmt.Print(line)
	}()
	if err := conn.Notify(ctx, "thread/looked/at", map[string]string{"threadId": "t1"}); err != nil {
		log.Fatal(err)
	}
	<-printed
	// Output: {"method":"thread/looked/at","params":{"threadId":"t1"}}
}

// The model calls a tool of the client's. The client answers, and the turn goes on.
func ExampleThread_AnswerCalls() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	conn := connect(ctx, "tool-burst-answered")
	defer conn.Close()
	search := codexrpc.DynamicTool{Type: "function", Name: "localSearch", InputSchema: json.RawMessage(`{"type":"object"}`)}
	thread, err := conn.StartThread(ctx, codexrpc.ThreadStartParams{
		Model: "gpt-5", ExperimentalRawEvents: true, DynamicTools: []codexrpc.DynamicTool{search},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer thread.Close(nil)
	question := []codexrpc.UserInput{{Type: "text", Text: "find my notes"}}
	if err := thread.StartTurn(ctx, codexrpc.TurnStartParams{Input: question}); err != nil {
		log.Fatal(err)
	}
	var calls []string
	var results []codexrpc.ToolResult
	for event, err := range thread.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if event.Kind == codexrpc.EventFunctionCall {
			fmt.Println(event.Name, event.Text)
			found := []codexrpc.UserInput{{Type: "text", Text: "3 notes found"}}
			calls = append(calls, event.CallID)
			results = append(results, codexrpc.ToolResult{CallID: event.CallID, Parts: found})
		}
		if event.Kind == codexrpc.EventResponseCompleted {
			break // the model waits for the results
		}
	}
	if err := thread.Parked(ctx, calls); err != nil {
		log.Fatal(err)
	}
	if err := thread.AnswerCalls(ctx, results); err != nil {
		log.Fatal(err)
	}
	for event, err := range thread.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if event.Kind == codexrpc.EventTextDelta {
			fmt.Print(event.Text)
		}
	}
	// Output:
	// localSearch {"query":"note 1"}
	// localSearch {"query":"note 2"}
	// localSearch {"query":"note 3"}
	// All three were answered.
}
