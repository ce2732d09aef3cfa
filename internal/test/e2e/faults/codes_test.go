package faults

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// codeRow is a row of the table of the provider's codes: the code, and the status and the code
// that clients get for it at the end of a stream and in a 400.
var codeRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)`[^|]* \\| (\\d+) `([a-z_]+)` \\| (\\d+) `([a-z_]+)` \\|$")

// TestProviderCodes checks what clients get for each code of the provider's, as documented.
func TestProviderCodes(t *testing.T) {
	e2e.WithLogin(t)
	rows := codeRow.FindAllStringSubmatch(e2e.ReadFile(t, "../../../../docs/errors.md"), -1)
	if len(rows) < 15 {
		t.Fatalf("the table has the rows %q", rows)
	}
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		for _, row := range rows {
			code, words := row[1], "these are the words for "+row[1]
			for end, want := range map[scriptedmodel.End][]string{
				scriptedmodel.Failed{Code: code, Message: words}:                 row[2:4],
				scriptedmodel.HTTPError{Status: 400, Code: code, Message: words}: row[4:6],
			} {
				remove := s.Model.On(func(scriptedmodel.Request) (scriptedmodel.Script, bool) { return scriptedmodel.Script{End: end}, true })
				response, text := s.Post(e2e.ChatBody("hello", nil), nil)
				remove()
				status, _ := strconv.Atoi(want[0])
				if response.StatusCode != status || !strings.Contains(text, fmt.Sprintf(`"code":%q`, want[1])) {
					t.Errorf("%#v: %s %s, want %s", end, response.Status, text, want)
				}
				if status == http.StatusBadRequest && want[1] != "context_length_exceeded" && !strings.Contains(text, words) {
					t.Errorf("%#v: %s", end, text)
				}
			}
		}
	})
}

// TestContentFilter checks that an answer which the provider has cut off comes once.
func TestContentFilter(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		for range 3 {
			reply := s.AskBoth(e2e.Question{Prompt: "say:It is once;incomplete:content_filter"})
			content := "It is once"
			e2e.CheckReply(t, reply, &content, nil, "content_filter")
		}
	})
}
