package responses

import (
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestCodexCompacts: the CLI, which believes in a small window, has its conversation summarised before it
// goes on, several times. It still knows at the end what was said at the beginning.
func TestCodexCompacts(t *testing.T) { e2e.OverBoth(t, testCodexCompacts) }

func testCodexCompacts(t *testing.T) {
	for _, name := range []string{"OpenAI", "Mine"} {
		t.Run(name, func(t *testing.T) {
			s := e2e.NewSite(t, "")
			s.Model.SetWindow(272_000)
			home, dir := codexHome(s, codexhome.Options{Name: name}), t.TempDir()
			ask := func(prompt string, resume ...string) string {
				t.Helper()
				arguments := append([]string{"--model", "gpt-5", "--config", "model_context_window=14000"}, resume...)
				output, err := codexExecIn(s, home, dir, append(arguments, prompt)...)
				if err != nil {
					t.Errorf("%v\n%s", err, output)
				}
				return output
			}
			ask("say:FACT first = 4711")
			for i := range 4 {
				ask(`tool:1 client_exec_command {"cmd":"seq 1 9000","max_output_tokens":20000}; then; say:FACT n`+strconv.Itoa(i)+` = v`, "resume", "--last")
			}
			if output := ask("RECALL first", "resume", "--last"); !strings.Contains(output, "4711") {
				t.Errorf("forgotten: %s", output)
			}
			summaries := 0
			for _, request := range s.Model.Requests() {
				if request.AsksForSummary() {
					summaries++
				}
			}
			if summaries < 2 {
				t.Errorf("%d summaries", summaries)
			}
		})
	}
}

// TestCompactThreshold: above a threshold the answer begins with a summary. A client may go on by the response's
// id, with all items, or with those from the summary on: the model knows the same, in the same thread.
func TestCompactThreshold(t *testing.T) { e2e.OverBoth(t, testCompactThreshold) }

func testCompactThreshold(t *testing.T) {
	s := e2e.NewSite(t, "")
	s.Model.SetWindow(20_000)
	long := strings.Repeat("some words that take room ", 1000)
	for _, way := range []string{"stored", "all items", "from the summary on"} {
		t.Run(way, func(t *testing.T) {
			s := s.At(t)
			fields := e2e.Fields{
				"instructions": "Be kind.", "context_management": []any{e2e.Fields{"type": "compaction", "compact_threshold": 3000}}, "store": way == "stored",
			}
			items := []any{e2e.Says("developer", "FACT rule = strict"), e2e.Says("user", "FACT secret = 4711 say:Fine.")}
			r := s.Respond(e2e.Asks(items, fields), nil)
			summaries := 0
			ask := func(text string) {
				t.Helper()
				next := e2e.Says("user", text)
				if way == "stored" {
					fields["previous_response_id"], items = r.ID, nil
				} else {
					for _, item := range r.Output {
						switch item.Type {
						case "compaction":
							if way == "from the summary on" {
								items = nil
							}
							items = append(items, e2e.Fields{"type": item.Type, "id": item.ID, "encrypted_content": item.Encrypted})
						case "message":
							items = append(items, e2e.Says("assistant", item.Content[0].Text))
						}
					}
				}
				items = append(items, next)
				r = s.Respond(e2e.Asks(items, fields), nil)
				if strings.HasPrefix(r.Types(), "compaction") {
					summaries++
				}
			}
			for range 4 {
				ask("say:Next. " + long)
			}
			for fact, want := range map[string]string{"secret": "4711", "rule": "strict"} {
				if ask("RECALL " + fact); r.Text() != want {
					t.Errorf("%s: %q", fact, r.Text())
				}
			}
			if summaries < 2 {
				t.Errorf("%d summaries", summaries)
			}
		})
	}
}
