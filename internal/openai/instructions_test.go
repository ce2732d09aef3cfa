package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// TestPlaced: with each placement all instructions are there once, and the plan
// stays as it was.
func TestPlaced(t *testing.T) {
	chat := mustDecode(t, `{"model":"m","messages":[{"role":"system","content":"I \"am\"."},{"role":"user","content":"h"},{"role":"user","content":"q"}],`+
		`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"}`)
	plan, refusal := chat.Plan(PlanOptions{})
	if refusal != nil {
		t.Fatal(refusal)
	}
	must := plan.Thread.DeveloperInstructions
	if must == "" {
		t.Fatal("tool_choice is no instruction")
	}
	history := string(encodeItems(t, plan.History))
	item := func(text string) string {
		return fmt.Sprintf(`{"type":"message","role":"developer","content":[{"type":"input_text","text":%s}]}`, jsontext.AppendString(nil, text))
	}
	all := "I \"am\".\n\n" + must
	for name, c := range map[string]struct {
		where           Placement
		base, developer any
		history         string
	}{
		"replace":               {Placement{Own: "O"}, `I "am".`, must, history},
		"replace, once":         {Placement{Once: true, Own: "O"}, "", all, history},
		"append":                {Placement{Append: true, Own: "O"}, nil, all, history},
		"append, once":          {Placement{Append: true, Once: true, Own: "O"}, "", "O", "[" + item(all) + "," + history[1:]},
		"append, once, unknown": {Placement{Append: true, Once: true}, nil, all, history},
	} {
		thread, items := plan.Placed(c.where)
		var params map[string]any
		encoded, err := json.Marshal(thread)
		if err == nil {
			err = json.Unmarshal(encoded, &params)
		}
		if err != nil {
			t.Fatal(err)
		}
		if params["baseInstructions"] != c.base || params["developerInstructions"] != c.developer || string(encodeItems(t, items)) != c.history {
			t.Errorf("%s: %v, %v, %s", name, params["baseInstructions"], params["developerInstructions"], encodeItems(t, items))
		}
	}
	if *plan.Thread.BaseInstructions != `I "am".` || plan.Thread.DeveloperInstructions != must || string(encodeItems(t, plan.History)) != history {
		t.Error("the plan has changed")
	}
}

func encodeItems(t *testing.T, items []json.RawMessage) []byte {
	t.Helper()
	encoded, err := json.Marshal(items)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func TestRefusesInstructions(t *testing.T) {
	const body = `{"detail":"Instructions are not valid"}`
	for name, c := range map[string]struct {
		failure error
		want    bool
	}{
		"as codex tells it":      {&codexrpc.TurnError{Code: "other", Message: body}, true},
		"wrapped":                {fmt.Errorf("turn: %w", &codexrpc.TurnError{Code: "badRequest", Message: body}), true},
		"with the status":        {&codexrpc.TurnError{Code: "httpConnectionFailed", HTTPStatus: 400, Message: "unexpected status 400 Bad Request: " + body + ", url: x"}, true},
		"with a full stop":       {&codexrpc.TurnError{Code: "other", Message: `{"detail":"instructions are not valid."}`}, true},
		"another status":         {&codexrpc.TurnError{Code: "httpConnectionFailed", HTTPStatus: 401, Message: "unexpected status: " + body}, false},
		"another detail":         {&codexrpc.TurnError{Code: "other", Message: `{"detail":"Model not found: Instructions are not valid"}`}, false},
		"what a client has sent": {&codexrpc.TurnError{Code: "other", Message: `{"error":{"message":"bad input: {\"detail\":\"Instructions are not valid\"}"}}`}, false},
		"no turn's failure":      {errors.New(body), false},
		"none":                   {nil, false},
	} {
		if got := RefusesInstructions(c.failure); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
