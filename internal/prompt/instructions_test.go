package prompt_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// TestPlaced: with each placement all instructions are there once, and the plan
// stays as it was.
func TestPlaced(t *testing.T) {
	chat := mustDecode(t, `{"model":"m","messages":[{"role":"system","content":"I \"am\"."},{"role":"user","content":"h"},{"role":"user","content":"q"}],`+
		`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"}`)
	plan, apiErr := chat.Plan(prompt.Options{})
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	must := plan.Thread.DeveloperInstructions
	if must == "" {
		t.Fatal("tool_choice is no instruction")
	}
	history := string(encodeItems(t, plan.History))
	item := func(text string) string {
		return fmt.Sprintf(`{"type":"message","role":"developer","content":[{"type":"input_text","text":%s}]}`, wirejson.AppendString(nil, text))
	}
	all := "I \"am\".\n\n" + must
	for name, c := range map[string]struct {
		where           prompt.Placement
		base, developer any
		history         string
	}{
		"replace":               {prompt.Placement{CodexPrompt: "O"}, `I "am".`, must, history},
		"replace, once":         {prompt.Placement{EmptyBase: true, CodexPrompt: "O"}, "", all, history},
		"append":                {prompt.Placement{Append: true, CodexPrompt: "O"}, nil, all, history},
		"append, once":          {prompt.Placement{Append: true, EmptyBase: true, CodexPrompt: "O"}, "", "O", "[" + item(all) + "," + history[1:]},
		"append, once, unknown": {prompt.Placement{Append: true, EmptyBase: true}, nil, all, history},
	} {
		thread, items := plan.WithPlacement(c.where)
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
