package appserver

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tidwall/gjson"
)

// The environment of the test binary when it plays the app-server.
const (
	childEnv = "CODEXRPC_TEST_CHILD" // what it does, see runChild
	pathEnv  = "CODEXRPC_TEST_PATH"  // a file for what it has to tell
)

const (
	methodInitialize        = "initialize"
	methodAuthStatus        = "getAuthStatus"
	methodAccountRead       = "account/read"
	methodRateLimitsRead    = "account/rateLimits/read"
	methodModelList         = "model/list"
	methodThreadStart       = "thread/start"
	methodThreadInject      = "thread/inject_items"
	methodThreadUnsubscribe = "thread/unsubscribe"
	methodTurnStart         = "turn/start"
	methodTurnInterrupt     = "turn/interrupt"
	methodDiagnostics       = "server/diagnostics"
	methodLoginStart        = "account/login/start"
)

// printModels is the run of the program that prints its catalogue.
func printModels(is map[string]bool) int {
	if is["models-fail"] {
		fmt.Fprintln(os.Stderr, "Error: no models today")
		return 6
	}
	fmt.Println(`{"models":[{"slug":"known"}]}`)
	if is["models-hang"] { // nothing but a kill ends it
		time.Sleep(time.Hour)
	}
	return 0
}

// runChild is the app-server of the tests. It answers what a start needs and ends with
// its input, except for what mode says, which is a list of words.
func runChild(mode string) int {
	is := words(strings.Fields(mode)...)
	if slices.Contains(os.Args, "debug") {
		return printModels(is)
	}
	if is["fails"] {
		fmt.Fprintln(os.Stderr, "Error: config.toml is broken")
		fmt.Fprintln(os.Stderr, "  at line 7")
		return 3
	}
	if is["litters"] {
		if err := os.WriteFile("left-behind", []byte("x"), 0o600); err != nil {
			return 4
		}
	}
	if is["abandons"] {
		abandoned := exec.Command("sleep", "1000")
		abandoned.Stdout, abandoned.Stderr = os.Stdout, os.Stderr
		abandoned.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if abandoned.Start() != nil || os.WriteFile(os.Getenv(pathEnv), fmt.Append(nil, abandoned.Process.Pid), 0o600) != nil {
			return 4
		}
		return 7
	}
	terminated := make(chan os.Signal, 1)
	if is["deaf"] || is["stubborn"] {
		signal.Notify(terminated, syscall.SIGTERM)
	}
	if err := (&double{is: is, stdout: os.Stdout, calls: make(map[string]int)}).serve(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 5
	}
	switch {
	case is["deaf"]: // to the end of its input
		<-terminated
		if err := os.WriteFile(os.Getenv(pathEnv), []byte("terminated"), 0o600); err != nil {
			return 4
		}
	case is["stubborn"]: // nothing but a kill ends it
		time.Sleep(time.Hour)
	}
	return 0
}

// words are what an app-server does that is unusual, see serve.
func words(all ...string) map[string]bool {
	is := make(map[string]bool)
	for _, word := range all {
		is[word] = true
	}
	return is
}

// serve answers what a client needs until the end of the input.
func (d *double) serve(stdin io.Reader) error {
	in := bufio.NewScanner(stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		d.wait()
		call := gjson.ParseBytes(in.Bytes())
		method, id := call.Get("method").Str, call.Get("id").Raw
		d.mu.Lock()
		d.calls[method]++
		d.mu.Unlock()
		if d.is["dies:"+method] {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if d.is["complains"] {
			fmt.Fprintln(os.Stderr, "asked for", method)
			d.say("no message of %s", method)
		}
		if d.is["misconfigured"] && method == "initialized" {
			d.say(`{"method":"configWarning","params":{"summary":"Invalid configuration; using defaults.","details":"no provider x"}}`)
		}
		if d.is["hangs-up:"+method] {
			_ = d.stdout.Close()
		}
		if id == "" || d.is["mute:"+method] {
			continue
		}
		d.say(`{"id":%s,%s}`, id, d.answer(method))
		switch {
		case method == methodTurnInterrupt:
			d.say("%s", turnCompleted(call.Get("params.threadId").Str, call.Get("params.turnId").Str, "interrupted"))
		case method == methodLoginStart && !d.is["nobody-signs-in"]:
			d.say(`{"method":"account/login/completed","params":{"success":%t,"error":"no such code"}}`, !d.is["sign-in-fails"])
		}
	}
	d.wait() // a frozen one does not notice the end either
	return in.Err()
}

// answer returns the member of an answer with the result or the error.
func (d *double) answer(method string) string {
	failed := func(message string) string { return fmt.Sprintf(`"error":{"code":-32603,"message":%q}`, message) }
	switch is := d.is; {
	case is["refuses:"+method]:
		return `"error":{"code":-32600,"message":"unknown variant"}`
	case method == methodAccountRead && is["account:failed"]:
		return failed("workspace routing discovery failed")
	case method == methodAccountRead && is["account:refused"]:
		return failed("Your refresh token has expired. Please log out and sign in again.")
	case method == methodRateLimitsRead && is["limits:500"]:
		return failed("failed to fetch codex rate limits: GET https://x/wham/usage failed: 500 Internal Server Error; content-type=application/json; body={}")
	case method == methodRateLimitsRead && is["limits:net"]:
		return failed("failed to fetch codex rate limits: error sending request for url (https://x/wham/usage)")
	case method == methodRateLimitsRead && len(d.limits) > 0:
		next := d.limits[0]
		d.limits = d.limits[1:]
		return next
	}
	return `"result":` + d.result(method)
}

func (d *double) result(method string) string {
	switch is := d.is; method {
	case methodInitialize:
		version := "0.171.0"
		if is["old"] {
			version = "0.120.0"
		}
		return fmt.Sprintf(`{"userAgent":"test/%s (test)","codexHome":%q}`, version, os.Getenv("CODEX_HOME"))
	case methodAuthStatus:
		if is["plan"] {
			return `{"authMethod":"chatgpt","authToken":null,"requiresOpenaiAuth":true}`
		}
		return fmt.Sprintf(`{"authMethod":null,"authToken":null,"requiresOpenaiAuth":%t}`, is["logged-out"])
	case methodAccountRead:
		return fmt.Sprintf(`{"account":null,"requiresOpenaiAuth":%t}`, is["logged-out"] || is["account-null"])
	case methodModelList:
		return `{"data":[]}`
	case methodThreadStart:
		d.threads++
		return fmt.Sprintf(`{"thread":{"id":"thr-%d"}}`, d.threads)
	case methodDiagnostics:
		memory := 100
		switch {
		case is["grows"]:
			memory += 100 * d.threads
		case is["fat"]:
			memory = 1 << 40
		}
		return fmt.Sprintf(`{"process":{"id":0,"residentMemoryBytes":%d,"physicalFootprintBytes":null},"gauges":[{"name":"core.threads.live","value":%d}]}`, memory, d.threads)
	case methodTurnStart:
		return fmt.Sprintf(`{"turn":{"id":"trn-%d"}}`, d.threads)
	case methodLoginStart:
		return `{"verificationUrl":"https://issuer.example/device","userCode":"AB-CD"}`
	}
	return `{}`
}

func (d *double) say(format string, args ...any) {
	_, _ = fmt.Fprintf(d.stdout, format+"\n", args...) // it may have been killed
}

func turnCompleted(thread, turn, status string) string {
	return fmt.Sprintf(`{"method":"turn/completed","params":{"threadId":%q,"turn":{"id":%q,"status":%q,"error":null}}}`, thread, turn, status)
}
