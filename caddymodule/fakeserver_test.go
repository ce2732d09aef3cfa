package caddymodule

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// fakeEnv makes the test binary a fake app-server. Its value is a name, so that fakes with
// different names have different configurations.
const fakeEnv = "CADDYMODULE_FAKE_APP_SERVER"

// lastWords is written by a fake to its stderr when its stdin has ended.
const lastWords = "the fake has ended"

// noLimits is the name of a fake that does not answer requests for the limits of the plan.
const noLimits = "no limits"

// slashedModel is the id of a model with a slash, which a fake offers.
const slashedModel = "vendor/model one"

// runFake answers the handshake and requests for the list of models, until its input ends.
func runFake(in io.Reader, out, stderr io.Writer) int {
	results := map[string]any{
		"initialize":    map[string]any{"userAgent": "fake/0.169.0 (x)", "codexHome": "/x"},
		"getAuthStatus": map[string]any{"authMethod": nil, "requiresOpenaiAuth": false},
		"account/read":  map[string]any{"account": nil, "requiresOpenaiAuth": false},
		"model/list":    map[string]any{"data": []any{map[string]any{"id": "plain"}, map[string]any{"id": slashedModel}}},
	}
	if slices.Contains(os.Args, "debug") { // it is to print its catalogue
		fmt.Fprintln(out, `{"models":[{"slug":"known"}]}`)
		return 0
	}
	answers := json.NewEncoder(out)
	login := fakeLogin(os.Getenv(loginEnv))
	if login.is() == "dead" {
		return 3
	}
	if login.is() == "missing" {
		results["getAuthStatus"] = map[string]any{"authMethod": nil, "requiresOpenaiAuth": true}
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var message struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				ThreadID string `json:"threadId"`
			} `json:"params"`
		}
		if err := json.Unmarshal(lines.Bytes(), &message); err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		if message.ID == nil {
			continue // a notification
		}
		if message.Method == "account/rateLimits/read" && os.Getenv(fakeEnv) == noLimits {
			continue // it never answers
		}
		answer := map[string]any{"id": message.ID, "result": results[message.Method]}
		var events []any
		switch message.Method {
		case "thread/start":
			answer["result"] = map[string]any{"thread": map[string]any{"id": "thread-" + string(message.ID)}}
		case "thread/inject_items", "thread/unsubscribe":
			answer["result"] = map[string]any{}
		case "turn/start":
			answer["result"] = map[string]any{"turn": map[string]any{"id": "turn"}}
			events = login.turn(message.Params.ThreadID)
		}
		if answer["result"] == nil {
			answer = map[string]any{"id": message.ID, "error": map[string]any{"code": -32601, "message": "unknown method " + message.Method}}
		}
		if err := answers.Encode(answer); err != nil {
			break // nobody reads any more
		}
		for _, e := range events {
			if err := answers.Encode(e); err != nil {
				break
			}
		}
	}
	fmt.Fprintln(stderr, lastWords)
	return 0
}

// fakeServer returns the configuration of a fake.
func fakeServer(t testing.TB, name string) *AppServer {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &AppServer{
		Command: []string{program, "app-server"},
		// Under the race detector a program otherwise sleeps before it exits.
		Env:          map[string]string{fakeEnv: name, "GORACE": "atexit_sleep_ms=0"},
		StartTimeout: caddy.Duration(patience),
		StopTimeout:  caddy.Duration(patience),
	}
}

// fakeHandler returns the configuration of a handler with a fake of that name.
func fakeHandler(t testing.TB, name string) *Handler {
	t.Helper()
	return &Handler{AppServers: []*AppServer{fakeServer(t, name)}}
}
