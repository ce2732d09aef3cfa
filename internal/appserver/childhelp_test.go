package appserver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
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

func turnCompleted(thread, turn, status string) string {
	return fmt.Sprintf(`{"method":"turn/completed","params":{"threadId":%q,"turn":{"id":%q,"status":%q,"error":null}}}`, thread, turn, status)
}

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
	is := make(map[string]bool)
	for word := range strings.SplitSeq(mode, " ") {
		is[word] = true
	}
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
	answerCalls(is)
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

func answerCalls(is map[string]bool) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var call struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				ThreadID string `json:"threadId"`
				TurnID   string `json:"turnId"`
			} `json:"params"`
		}
		if err := json.Unmarshal(in.Bytes(), &call); err != nil {
			fmt.Fprintln(os.Stderr, "unreadable input")
			os.Exit(5)
		}
		if is["dies:"+call.Method] {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if is["complains"] {
			fmt.Fprintln(os.Stderr, "asked for", call.Method)
			fmt.Println("no message of", call.Method)
		}
		if is["misconfigured"] && call.Method == "initialized" {
			fmt.Printf(`{"method":"configWarning","params":{"summary":"Invalid configuration; using defaults.","details":"no provider x"}}` + "\n")
		}
		if is["hangs-up:"+call.Method] {
			_ = os.Stdout.Close()
		}
		if is["refuses:"+call.Method] {
			fmt.Printf(`{"id":%s,"error":{"code":-32600,"message":"unknown variant"}}`+"\n", call.ID)
			continue
		}
		if refusal := childRefusal(is, call.Method); refusal != "" {
			fmt.Printf(`{"id":%s,"error":{"code":-32603,"message":%q}}`+"\n", call.ID, refusal)
			continue
		}
		if result := childResult(is, call.Method); result != "" && call.ID != nil {
			fmt.Printf(`{"id":%s,"result":%s}`+"\n", call.ID, result)
			if call.Method == methodTurnInterrupt {
				fmt.Println(turnCompleted(call.Params.ThreadID, call.Params.TurnID, "interrupted"))
			}
			if call.Method == methodLoginStart && !is["nobody-signs-in"] {
				fmt.Printf(`{"method":"account/login/completed","params":{"success":%t,"error":"no such code"}}`+"\n", !is["sign-in-fails"])
			}
		}
	}
	if err := in.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(5)
	}
}

var threadsStarted int

// childRefusal returns the message with which the back end's calls fail; empty: they do not.
func childRefusal(is map[string]bool, method string) string {
	switch {
	case method == methodAccountRead && is["account:failed"]:
		return "workspace routing discovery failed"
	case method == methodAccountRead && is["account:refused"]:
		return "Your refresh token has expired. Please log out and sign in again."
	case method == methodRateLimitsRead && is["limits:500"]:
		return "failed to fetch codex rate limits: GET https://x/wham/usage failed: 500 Internal Server Error; content-type=application/json; body={}"
	case method == methodRateLimitsRead && is["limits:net"]:
		return "failed to fetch codex rate limits: error sending request for url (https://x/wham/usage)"
	}
	return ""
}

// childResult returns the result of a method; empty: the call is not answered.
func childResult(is map[string]bool, method string) string {
	if is["mute:"+method] {
		return ""
	}
	switch method {
	case methodInitialize:
		version := "0.169.0"
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
		threadsStarted++
		return fmt.Sprintf(`{"thread":{"id":"thr-%d"}}`, threadsStarted)
	case methodDiagnostics:
		memory := 100
		switch {
		case is["grows"]:
			memory += 100 * threadsStarted
		case is["fat"]:
			memory = 1 << 40
		}
		return fmt.Sprintf(`{"process":{"id":0,"residentMemoryBytes":%d,"physicalFootprintBytes":null},"gauges":[{"name":"core.threads.live","value":%d}]}`, memory, threadsStarted)
	case methodTurnStart:
		return `{"turn":{"id":"trn-1"}}`
	case methodLoginStart:
		return `{"verificationUrl":"https://issuer.example/device","userCode":"AB-CD"}`
	}
	return `{}`
}
