package conversations

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestToolAuto checks the mode of requests without x-proxy-output-mode.
func TestToolAuto(t *testing.T) {
	s := e2e.NewSite(t, "")
	q, block := e2e.Question{Prompt: `usetool:localSearch {"query":"a"}`}, useTool("localSearch", "a")
	check := func(mode string, content *string, calls []string, finish string) {
		t.Helper()
		got := s.AskBoth(q)
		e2e.CheckReply(t, got, content, calls, finish)
		if got := got.Header.Get("X-Proxy-Output-Mode"); got != mode {
			t.Errorf("the header says %q; want %q", got, mode)
		}
	}
	check(e2e.ModeJSON, &block, nil, "stop") // an ordinary client: the block is a text
	q.System = e2e.Taught
	check(e2e.ModeXML, &block, e2e.Searches("a"), "tool_calls")
	q.System, q.Tools = "", true
	check(e2e.ModeJSON, nil, e2e.Searches("a"), "tool_calls")
}

// TestToolCut checks the finish reason of an incomplete answer.
func TestToolCut(t *testing.T) { e2e.OverBoth(t, testToolCut) }

func testToolCut(t *testing.T) {
	s := e2e.NewSite(t, e2e.Patient)
	block := useTool("localSearch", "a")
	for name, c := range map[string]struct {
		prompt, content, finish string
		calls                   []string
	}{
		"after a call":         {"say:" + block + "; incomplete:max_output_tokens", block, "tool_calls", e2e.Searches("a")},
		"within the next call": {"say:" + block + "<use_tool><name>lo; incomplete:max_output_tokens", block + "<use_tool><name>lo", "length", e2e.Searches("a")},
	} {
		t.Run(name, func(t *testing.T) {
			e2e.CheckReply(t, s.At(t).AskBoth(e2e.Question{Prompt: c.prompt, System: e2e.Taught}), &c.content, c.calls, c.finish)
		})
	}
}

// TestToolBursts checks several calls of both forms in both modes, streamed and not.
func TestToolBursts(t *testing.T) { e2e.OverBothSampled(t, testToolBursts) }

func testToolBursts(t *testing.T, all bool) {
	s := e2e.NewSite(t, e2e.Patient)
	numbers := []int{3}
	if all {
		numbers = []int{1, 2, 20}
	}
	for _, n := range numbers {
		for _, form := range []string{"tool", "usetool"} {
			for _, mode := range []string{e2e.ModeJSON, e2e.ModeXML} {
				t.Run(fmt.Sprintf("%d %s in %s", n, form, mode), func(t *testing.T) {
					got := s.At(t).AskBoth(e2e.Question{
						Prompt: fmt.Sprintf(`chunk=7; %s:%d localSearch {"query":"Zoë %%d"}`, form, n),
						Mode:   mode,
						Tools:  true,
					})
					checkBurst(t, got, n, mode)
				})
			}
		}
	}
}

// checkBurst checks n calls in order, and in obsidian-xml that each block is one chunk.
func checkBurst(t *testing.T, got e2e.Reply, n int, mode string) {
	t.Helper()
	var queries, blocks []string
	for i := range n {
		queries = append(queries, fmt.Sprintf("Zoë %d", i+1))
		blocks = append(blocks, useTool("localSearch", queries[i]))
	}
	if !slices.Equal(got.Calls, e2e.Searches(queries...)) || got.Finish != "tool_calls" || got.Truncated {
		t.Errorf("%+v", got)
	}
	if ids := slices.Compact(slices.Sorted(slices.Values(got.IDs))); len(ids) != n {
		t.Errorf("the ids are %q", got.IDs)
	}
	if mode == e2e.ModeJSON {
		if !got.Null {
			t.Errorf("the content is %q", got.Content)
		}
		return
	}
	if chunks := withOpener(got.Pieces); !slices.Equal(chunks, blocks) {
		t.Errorf("the blocks came as %q", chunks)
	}
	if rest := strings.Join(strings.Fields(strings.Join(got.Pieces, "")), ""); rest != strings.Join(strings.Fields(strings.Join(blocks, "")), "") {
		t.Errorf("beside the blocks there is more: %q", got.Content)
	}
}

// withOpener returns the pieces with a part of a block.
func withOpener(pieces []string) []string {
	return slices.DeleteFunc(slices.Clone(pieces), func(piece string) bool { return !strings.Contains(piece, "use_tool") })
}

// note is a real answer to Obsidian Copilot. Its block has markup, links and 4-byte characters.
const note = "Ich lege die Notiz “Küche” an.\n\n" + noteBlock

const noteBlock = "<use_tool>\n<name>writeToFile</name>\n<path>Haus/Küche – Plan.md</path>\n<content># Küche\n\n" +
	"- Montag – Fliesen & Fugen bei 9\u202f°C\n- Dienstag: „Ruhe“ <br> kein Lärm\n- Mittwoch: Zoë’s Schränke 🧰\n\n" +
	"| Tag | Ziel |\n|---|---|\n| Mo | Boden |\n\nSiehe [[Haus/Plan]], https://example.org/?a=1&b=2 und 你好\n</content>\n</use_tool>"

// TestToolWriteNote: Obsidian gets a real answer unchanged, its block in one chunk.
func TestToolWriteNote(t *testing.T) {
	s := e2e.NewSite(t, "")
	for _, chunk := range []string{"1", "7", "all"} {
		t.Run(chunk, func(t *testing.T) {
			s := s.At(t)
			q := e2e.Question{Prompt: "chunk=" + chunk + "; verbatim:" + note, System: e2e.Taught}
			got := s.AskBoth(q)
			if got.Content != note || got.Finish != "tool_calls" || len(got.Calls) != 1 {
				t.Errorf("%+v", got)
			}
			if chunks := withOpener(got.Pieces); !slices.Equal(chunks, []string{noteBlock}) {
				t.Errorf("the block came as %q", chunks)
			}
			q.Mode = e2e.ModeJSON
			asJSON := s.AskBoth(q)
			if text, _, _ := strings.Cut(note, "<use_tool>"); asJSON.Content != text || !slices.Equal(asJSON.Calls, got.Calls) {
				t.Errorf("in openai-json: %+v", asJSON)
			}
			for _, part := range []string{`"path":"Haus/Küche – Plan.md"`, "Fliesen & Fugen bei 9\u202f°C", "Schränke 🧰", "你好"} {
				if !strings.Contains(got.Calls[0], part) {
					t.Errorf("the arguments are %s", got.Calls[0])
				}
			}
		})
	}
}
