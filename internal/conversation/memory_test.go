package conversation

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// thoughts returns reasoning with the positions and texts "1:a".
func thoughts(all ...string) (reasoning []turn.Reasoning) {
	for _, one := range all {
		reasoning = append(reasoning, turn.Reasoning{Before: int(one[0] - '0'), Item: `{"type":"reasoning","id":"` + one[2:] + `"}`})
	}
	return reasoning
}

// shorthand are the items of a history by their letters. Other letters are reasoning.
var shorthand = map[byte]string{
	'u': message("user", "x"), 'a': message("assistant", "y"), 'c': call("c", "f", "{}"), 'r': result("c", "z"),
}

// spelled returns the history that letters stand for.
func spelled(t *testing.T, letters string) []json.RawMessage {
	t.Helper()
	var all []string
	for i := range letters {
		item := shorthand[letters[i]]
		if item == "" {
			item = thoughts("0:" + letters[i:i+1])[0].Item
		}
		all = append(all, item)
	}
	return items(t, all...)
}

// lettersOf is the reverse of spelled.
func lettersOf(history []json.RawMessage) string {
	var letters []byte
	for _, item := range history {
		letter := gjson.GetBytes(item, "id").Str
		for short, spelled := range shorthand {
			if spelled == string(item) {
				letter = string(short)
			}
		}
		letters = append(letters, letter...)
	}
	return string(letters)
}

func chainOf(t *testing.T, history []json.RawMessage) *Chain {
	t.Helper()
	chain, err := NewChain(ann, history, nil)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

// TestRestore checks where the reasoning of answers goes.
func TestRestore(t *testing.T) {
	for name, test := range map[string]struct {
		history string
		answers map[int][]turn.Reasoning // by their numbers
		want    string
	}{
		"in front of each item":    {"uacr", map[int][]turn.Reasoning{0: thoughts("0:1", "1:2")}, "u1a2cr"},
		"two answers":              {"uacrau", map[int][]turn.Reasoning{0: thoughts("0:1"), 1: thoughts("0:2")}, "u1acr2au"},
		"the second only":          {"uaua", map[int][]turn.Reasoning{1: thoughts("0:1", "0:2")}, "uau12a"},
		"joined messages":          {"uau", map[int][]turn.Reasoning{0: thoughts("0:1", "1:2")}, "u12au"},
		"the client has it":        {"uTau", map[int][]turn.Reasoning{0: thoughts("0:1")}, "uTau"},
		"the client has one":       {"uTaua", map[int][]turn.Reasoning{0: thoughts("0:1"), 1: thoughts("0:2")}, "uTau2a"},
		"at the end of the client": {"uauaT", map[int][]turn.Reasoning{0: thoughts("0:1")}, "u1auaT"},
		"nothing is known":         {"uaua", nil, "uaua"},
		"no answer":                {"u", nil, "u"},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewMemory(1 << 20)
			history := spelled(t, test.history)
			links := chainOf(t, history).Links
			for i, reasoning := range test.answers {
				m.Remember(links[i].Hash, reasoning)
			}
			got, added := m.Restore(links, history)
			if lettersOf(got) != test.want || added != len(got)-len(history) || lettersOf(history) != test.history {
				t.Errorf("restored %s, %d more, of %s; want %s", lettersOf(got), added, lettersOf(history), test.want)
			}
			if len(chainOf(t, got).Links) != len(links) || chainOf(t, got).state != chainOf(t, history).state {
				t.Error("the reasoning has changed the conversation")
			}
			m.Forget(links)
			if got, added := m.Restore(links, history); added != 0 || lettersOf(got) != test.history || m.bytes != 0 {
				t.Errorf("after all was forgotten there are %s, %d bytes", lettersOf(got), m.bytes)
			}
		})
	}
}

// TestMemoryIsBounded checks that what was used least recently goes first.
func TestMemoryIsBounded(t *testing.T) {
	history := spelled(t, "ua")
	link := chainOf(t, history).Links[0]
	one := thoughts("0:1")
	size := memoryEntrySize + len(one[0].Item)
	m := NewMemory(3 * size)
	m.Remember(link.Hash, one)
	m.Remember(named("b"), one)
	m.Remember(named("c"), one)
	m.Restore([]Link{link}, history)
	m.Remember(named("d"), one)
	m.Remember(named("d"), one) // once more
	m.Remember(named("nothing"), nil)
	m.Remember(named("too large"), []turn.Reasoning{{Item: strings.Repeat("x", 4*size)}})
	if m.bytes != 3*size || m.order.Len() != 3 || m.byHash[named("b")] != nil || m.byHash[link.Hash] == nil {
		t.Errorf("%d entries with %d bytes: %v", m.order.Len(), m.bytes, m.byHash)
	}
	m.Clear()
	if _, added := m.Restore([]Link{link}, history); added != 0 || m.bytes+m.order.Len() != 0 {
		t.Errorf("%d entries with %d bytes are left", m.order.Len(), m.bytes)
	}
}
