package faults

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// codeRow is a row of the table of the provider's codes: the codes, and the status and the code
// that clients get for them at the end of a stream and in a 400, where it may be the same one.
var codeRow = regexp.MustCompile("(?m)^\\| (`[^|]+) \\| (\\d+) `([a-z_]+)` \\| (\\d+)(?: `([a-z_]+)`|, the same code) \\|$")

// codeName is a code in the first cell of a row.
var codeName = regexp.MustCompile("`([a-z_]+)`")

// documentedCodes returns the rows of the table by the provider's codes.
func documentedCodes(t *testing.T) map[string][]string {
	codes := make(map[string][]string)
	for _, row := range codeRow.FindAllStringSubmatch(e2e.ReadFile(t, "../../../../docs/errors.md"), -1) {
		for _, code := range codeName.FindAllStringSubmatch(row[1], -1) {
			codes[code[1]] = slices.Clone(row)
			if row[5] == "" {
				codes[code[1]][5] = code[1]
			}
		}
	}
	if len(codes) < 15 {
		t.Fatalf("the table has the codes %q", codes)
	}
	return codes
}

// TestProviderCodes checks what clients get for each code of the provider's, as documented, and that
// an answer which the provider has cut off comes once.
func TestProviderCodes(t *testing.T) {
	e2e.WithLogin(t)
	codes := documentedCodes(t)
	e2e.OverBothSampled(t, func(t *testing.T, all bool) {
		s := e2e.NewSite(t, "")
		for i, code := range slices.Sorted(maps.Keys(codes)) {
			if all || i%4 == 0 {
				checkCode(s, code, codes[code])
			}
		}
		for range 3 {
			reply := s.AskBoth(e2e.Question{Prompt: "say:It is once;incomplete:content_filter"})
			content := "It is once"
			e2e.CheckReply(t, reply, &content, nil, "content_filter")
		}
	})
}

// wordsOf has the provider's words for codes of which Codex passes on the text only.
var wordsOf = map[string]string{
	"usage_limit_reached":      "The usage limit has been reached",
	"bio_policy":               "This content was flagged for possible biological risk.",
	"content_policy_violation": "Your request was rejected as a result of our safety system.",
	"invalid_prompt":           "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
}

// checkCode checks a row of the table.
func checkCode(s *e2e.Site, code string, row []string) {
	s.T.Helper()
	words := cmp.Or(wordsOf[code], "these are the words for "+code)
	for end, want := range map[scriptedmodel.End][]string{
		scriptedmodel.Failed{Code: code, Message: words}:                 row[2:4],
		scriptedmodel.HTTPError{Status: 400, Code: code, Message: words}: row[4:6],
	} {
		remove := s.Model.On(func(scriptedmodel.Request) (scriptedmodel.Script, bool) { return scriptedmodel.Script{End: end}, true })
		response, text := s.Post(e2e.ChatBody("hello", nil), nil)
		remove()
		status, _ := strconv.Atoi(want[0])
		if response.StatusCode != status || !strings.Contains(text, fmt.Sprintf(`"code":%q`, want[1])) {
			s.T.Errorf("%#v: %s %s, want %s", end, response.Status, text, want)
		}
		if status == http.StatusBadRequest && want[1] != "context_length_exceeded" && !strings.Contains(text, words) {
			s.T.Errorf("%#v: %s", end, text)
		}
	}
}
