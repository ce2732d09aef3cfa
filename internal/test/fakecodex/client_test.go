package fakecodex

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// patience bounds every wait of a test; passing tests do not reach it.
const patience = time.Minute

// recordings loads the repository's recordings, once.
var recordings = sync.OnceValues(func() (*Transcripts, error) {
	return Load(filepath.Join("..", "..", "..", "testdata", "transcripts"))
})

func transcripts(t *testing.T) *Transcripts {
	t.Helper()
	all, err := recordings()
	must.OK(t, err)
	return all
}

func recorded(t *testing.T, name string) *turn {
	t.Helper()
	for _, turn := range transcripts(t).turns {
		if turn.name == name {
			return turn
		}
	}
	t.Fatalf("no recording is named %s", name)
	return nil
}

// connect starts a server and a connection to it, with the handshake, until the end of the test.
// logger may be nil.
func connect(t *testing.T, opts Options, logger func() *slog.Logger) *codexrpc.Conn {
	t.Helper()
	if opts.Transcripts == nil {
		opts.Transcripts = transcripts(t)
	}
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = Serve(context.Background(), fromClient, toClient, opts) // the client sees how it ends
		_ = toClient.Close()
		_ = fromClient.Close()
	}()
	c := codexrpc.NewConn(&answering{Transport: codexrpc.NewStdio(fromServer, toServer)}, codexrpc.Options{Logger: logger})
	t.Cleanup(func() {
		_ = c.Close()
		<-done
	})
	if _, err := c.Initialize(patient(t), codexrpc.ClientInfo{Name: "test"}); err != nil {
		t.Fatal(err)
	}
	return c
}

// answering is a transport that answers tool calls at once. The client does not: it
// leaves them to its own clients.
type answering struct {
	codexrpc.Transport
	writing sync.Mutex
	answers sync.WaitGroup
}

func (a *answering) Write(message []byte, timeout time.Duration) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	return a.Transport.Write(message, timeout)
}

func (a *answering) Read() ([]byte, error) {
	for {
		line, err := a.Transport.Read()
		if err != nil || gjson.GetBytes(line, "method").Str != "item/tool/call" {
			return line, err
		}
		reply := []byte(`{"id":` + gjson.GetBytes(line, "id").Raw + `,"result":{"contentItems":[],"success":true}}`)
		// On another goroutine, since the server may wait for this reader before it reads again.
		a.answers.Go(func() { _ = a.Write(reply, patience) })
	}
}

func (a *answering) Close() error {
	err := a.Transport.Close()
	a.answers.Wait()
	return err
}

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// begin starts a thread with the history and input of a recording.
func begin(t *testing.T, c *codexrpc.Conn, turn *turn) *codexrpc.Thread {
	t.Helper()
	thread, err := c.StartThread(patient(t), codexrpc.ThreadStartParams{})
	must.OK(t, err)
	if turn.history != "" {
		var items []json.RawMessage
		for text := range strings.SplitSeq(strings.TrimSuffix(turn.history, separator), separator) {
			item, err := json.Marshal(map[string]string{"type": "message", "content": text})
			must.OK(t, err)
			items = append(items, item)
		}
		must.OK(t, thread.InjectItems(patient(t), items))
	}
	var input []codexrpc.UserInput
	if text, ok := strings.CutSuffix(turn.input, separator); ok {
		input = append(input, codexrpc.UserInput{Type: "text", Text: text})
	}
	must.OK(t, thread.StartTurn(patient(t), codexrpc.TurnStartParams{Input: input}))
	return thread
}

type heardTurn struct {
	text, reasoning string
	calls           []string // name and arguments
	status, code    string
	err             error
}

// take reads a turn until it ends.
func take(t *testing.T, thread *codexrpc.Thread) heardTurn {
	t.Helper()
	ctx := patient(t)
	var h heardTurn
	var events []codexrpc.Event
	for {
		if events, h.err = thread.Recv(); h.err != nil {
			return h
		}
		for _, e := range events {
			switch e.Kind {
			case codexrpc.EventTextDelta:
				h.text += e.Text
			case codexrpc.EventReasoningDelta:
				h.reasoning += e.Text
			case codexrpc.EventFunctionCall:
				h.calls = append(h.calls, e.Name+e.Text)
			case codexrpc.EventTurnCompleted:
				h.status = e.Status
				if e.Err != nil {
					h.code = e.Err.Code + ": " + e.Err.Message
				}
				return h
			}
		}
		select {
		case <-thread.Ready():
		case <-ctx.Done():
			t.Error("the turn does not end")
			return h
		}
	}
}

// untilText reads a turn until there is some text.
func untilText(t *testing.T, thread *codexrpc.Thread) string {
	t.Helper()
	ctx := patient(t)
	for text := ""; ; {
		events, err := thread.Recv()
		must.OK(t, err)
		for _, e := range events {
			if e.Kind == codexrpc.EventTextDelta {
				text += e.Text
			}
		}
		if text != "" {
			return text
		}
		select {
		case <-thread.Ready():
		case <-ctx.Done():
			t.Fatal("there is no text")
		}
	}
}

// fromRecording returns a recorded turn as a client must get it.
func fromRecording(turn *turn) heardTurn {
	var h heardTurn
	for _, s := range turn.steps {
		m := gjson.Parse(s.message)
		params := m.Get("params")
		switch m.Get("method").Str {
		case "item/agentMessage/delta":
			h.text += params.Get("delta").Str
		case "item/reasoning/summaryTextDelta":
			h.reasoning += params.Get("delta").Str
		case "rawResponseItem/completed":
			if params.Get("item.type").Str == "function_call" && params.Get("turnId").Str == turn.id {
				h.calls = append(h.calls, params.Get("item.name").Str+params.Get("item.arguments").Str)
			}
		case "turn/completed":
			h.status = params.Get("turn.status").Str
			if failure := params.Get("turn.error"); failure.IsObject() {
				info := failure.Get("codexErrorInfo")
				code := info.Str
				info.ForEach(func(variant, _ gjson.Result) bool {
					if variant.Exists() {
						code = variant.Str
					}
					return false
				})
				if code == "" {
					code = info.Str
				}
				h.code = code + ": " + failure.Get("message").Str
			}
			return h // clients do not get what comes late
		}
	}
	return h
}

// lines starts a server and returns functions that read and write single lines.
func lines(t *testing.T) (read func() string, write func(string)) {
	t.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Serve(context.Background(), fromClient, toClient, Options{
			Transcripts: transcripts(t), Default: "text", Faults: Faults{StallAfter: 2},
		})
	}()
	t.Cleanup(func() {
		_, _ = toServer.Close(), fromServer.Close()
		if err := <-done; err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("it ended with %v", err)
		}
	})
	in := bufio.NewReader(fromServer)
	read = func() string {
		line, err := in.ReadString('\n')
		must.OK(t, err)
		return line
	}
	write = func(line string) {
		if _, err := io.WriteString(toServer, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	return read, write
}
