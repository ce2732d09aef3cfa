// Package fakeserver is an app-server as far as the supervision of app-servers needs one. A test
// binary that calls [Main] first is one if the environment says so.
package fakeserver

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// NameEnv makes the test binary a fake app-server, named so that its configuration is its own.
const NameEnv = "FAKE_APP_SERVER"

// LastWords is written by a fake to its stderr when its stdin has ended.
const LastWords = "the fake has ended"

// NoLimits is the name of a fake that does not answer requests for the limits of the plan.
const NoLimits = "no limits"

// Planned is the name of a fake that has a login with a plan.
const Planned = "planned"

// CatalogueEnv has the catalogue that a fake prints. Without it, the catalogue has one model without properties.
const CatalogueEnv = "FAKE_CATALOGUE"

// SlashedModel is the id of a model with a slash, which a fake offers.
const SlashedModel = "vendor/model one"

// Main makes this program a fake app-server, and does not return, if it was started as one.
func Main() {
	if os.Getenv(NameEnv) == "" {
		return
	}
	signal.Ignore(syscall.SIGPIPE) // an answer that nobody reads is not its end
	os.Exit(run(os.Stdin, os.Stdout, os.Stderr))
}

// Command returns the command and the environment of a fake with a name.
func Command(t testing.TB, name string) (command []string, env map[string]string) {
	t.Helper()
	program, err := os.Executable()
	must.OK(t, err)
	// Under the race detector a program otherwise sleeps before it exits.
	return []string{program, "app-server"}, map[string]string{NameEnv: name, "GORACE": "atexit_sleep_ms=0"}
}

// resultsOf returns the results of calls that need no more than the login, by method.
func resultsOf(login Login) map[string]any {
	results := map[string]any{
		"initialize":          map[string]any{"userAgent": "fake/0.171.0 (x)", "codexHome": "/x"},
		"getAuthStatus":       map[string]any{"authMethod": nil, "requiresOpenaiAuth": false},
		"account/read":        map[string]any{"account": nil, "requiresOpenaiAuth": false},
		"account/login/start": map[string]any{"verificationUrl": "https://issuer.example/device", "userCode": "AB-CD"}, // nobody enters it
		"model/list":          map[string]any{"data": []any{map[string]any{"id": "plain", "model": "plain"}, map[string]any{"id": SlashedModel, "model": SlashedModel}}},
	}
	if os.Getenv(NameEnv) == Planned {
		results["getAuthStatus"] = map[string]any{"authMethod": "chatgpt", "requiresOpenaiAuth": true}
	}
	if login.is() == "missing" {
		results["getAuthStatus"] = map[string]any{"authMethod": nil, "requiresOpenaiAuth": true}
	}
	return results
}

// run answers the handshake and requests for the list of models, until its input ends.
func run(in io.Reader, out, stderr io.Writer) int {
	if slices.Contains(os.Args, "debug") { // it is to print its catalogue
		fmt.Fprintln(out, cmp.Or(os.Getenv(CatalogueEnv), `{"models":[{"slug":"known"}]}`))
		return 0
	}
	answers := json.NewEncoder(out)
	login := Login(os.Getenv(LoginEnv))
	if login.is() == "dead" {
		return 3
	}
	results := resultsOf(login)
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
		if message.Method == "account/rateLimits/read" && os.Getenv(NameEnv) == NoLimits {
			continue // it never answers
		}
		answer := map[string]any{"id": message.ID, "result": results[message.Method]}
		var events []any
		switch message.Method {
		case "account/rateLimits/read":
			answer["result"] = login.limits()
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
	if err := lines.Err(); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintln(stderr, LastWords)
	return 0
}
