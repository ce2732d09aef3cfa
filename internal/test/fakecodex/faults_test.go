package fakecodex

import (
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

func TestInitialize(t *testing.T) {
	c, _ := connect(t, Options{})
	if version, err := c.Initialize(patient(t), codexrpc.ClientInfo{Name: "test"}); err != nil || version != "0.169.0" {
		t.Errorf("version %q, %v", version, err)
	}
	models, err := c.Models(patient(t))
	if err != nil || len(models) == 0 {
		t.Errorf("%d models, %v", len(models), err)
	}
}

func TestDeath(t *testing.T) {
	c, served := connect(t, Options{Faults: Faults{DieAt: "thread/start", ExitCode: 7}})
	if _, err := c.Initialize(patient(t), codexrpc.ClientInfo{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.StartThread(patient(t), codexrpc.ThreadStartParams{}); !errors.Is(err, codexrpc.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if code := died(t, served); code != 7 {
		t.Errorf("exit code %d", code)
	}

	c, served = connect(t, Options{Faults: Faults{DieAfter: 10, ExitCode: 8}})
	if _, err := c.Initialize(patient(t), codexrpc.ClientInfo{}); err != nil {
		t.Fatal(err)
	}
	if got := take(t, begin(t, c, recorded(t, "text"))); !errors.Is(got.err, codexrpc.ErrClosed) {
		t.Errorf("got %+v", got)
	}
	if code := died(t, served); code != 8 {
		t.Errorf("exit code %d", code)
	}
	if text := (&DeathError{8}).Error(); !strings.Contains(text, "8") {
		t.Errorf("it reads %q", text)
	}
}

// TestHeard checks that Heard gets the client's messages in order.
func TestHeard(t *testing.T) {
	var mu sync.Mutex
	var methods []string
	c := ready(t, Options{Heard: func(line []byte) {
		mu.Lock()
		defer mu.Unlock()
		methods = append(methods, gjson.GetBytes(line, "method").Str)
	}})
	take(t, begin(t, c, recorded(t, "text")))
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"initialize", "initialized", "getAuthStatus", "thread/start", "turn/start"}; !reflect.DeepEqual(methods, want) {
		t.Errorf("heard %q", methods)
	}
}

// TestRefusals checks that wrong calls are refused as by Codex.
func TestRefusals(t *testing.T) {
	reader, client := lines(t)
	for _, test := range []struct{ call, want string }{
		{`{"id":1,"method":"model/list","params":{}}`, "Not initialized"},
		{`{"id":2,"method":"initialize","params":{"clientInfo":{"name":"x"}}}`, ""},
		{`{"id":3,"method":"future/thing","params":{}}`, "unknown variant"},
		{`{"id":4,"method":"turn/start","params":{"threadId":"none","input":[]}}`, "thread not found"},
		{`{"id":5,"method":"thread/start","params":{}}`, ""},
		{`{"id":6,"method":"turn/interrupt","params":{"threadId":"00000000-0000-7000-8000-000000000001","turnId":""}}`, "no active turn"},
	} {
		client(test.call)
		answer := gjson.Parse(reader())
		if message := answer.Get("error.message").Str; !strings.Contains(message, test.want) || (message == "") != (test.want == "") {
			t.Errorf("%s was answered with %s", test.call, answer.Raw)
		}
	}
	client(`{"id":7,"method":"turn/start","params":{"threadId":"00000000-0000-7000-8000-000000000001","input":[]}}`)
	client(`{"id":8,"method":"turn/interrupt","params":{"threadId":"00000000-0000-7000-8000-000000000001","turnId":"another"}}`)
	for {
		if answer := gjson.Parse(reader()); answer.Get("id").Int() == 8 {
			if !answer.Get("error").Exists() {
				t.Errorf("a turn of another id was interrupted: %s", answer.Raw)
			}
			return
		}
	}
}
