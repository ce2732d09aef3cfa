package command

import (
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// TestUsageRows checks that a name which a client has chosen stays one text in a table, a CSV and a spreadsheet.
func TestUsageRows(t *testing.T) {
	for name, want := range map[string]string{
		"gpt-5.5": "gpt-5.5", "=1+cmd|calc!A0": "'=1+cmd|calc!A0", "@SUM(1)": "'@SUM(1)", "-1": "'-1", "+1": "'+1",
		"\t=1": `\t=1`, "\x1b[31m\r\na": `\x1b[31m\r\na`, `"a"`: `\"a\"`,
	} {
		rows := usageRows(&usage.Account{ByModel: []usage.Part{{Name: name}}})
		if len(rows) != 2 || rows[1][1] != want {
			t.Errorf("%q: %q, want %q", name, rows, want)
		}
	}
}
