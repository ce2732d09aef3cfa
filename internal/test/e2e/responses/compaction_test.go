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
