package appserver

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// writeLogin writes a login whose access token ends at a time.
func writeLogin(t *testing.T, home string, end time.Time) {
	t.Helper()
	claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, end.Unix()))
	writeTestFile(t, filepath.Join(home, loginFiles[0]), fmt.Sprintf(`{"tokens":{"access_token":"e30.%s.c2ln","refresh_token":"r"}}`, claims))
}

func TestTokenEnd(t *testing.T) {
	home, end := t.TempDir(), time.Unix(1_900_000_000, 0)
	if _, renewable := tokenEnd(home); renewable {
		t.Error("there is no login")
	}
	writeLogin(t, home, end)
	if got, renewable := tokenEnd(home); !renewable || !got.Equal(end) {
		t.Errorf("it ends at %s (%t)", got, renewable)
	}
	for _, login := range []string{
		``, `[]`, `{"OPENAI_API_KEY":"sk-x"}`, `{"tokens":{"access_token":"a.b.c"}}`,
		`{"tokens":{"access_token":"","refresh_token":"r"}}`, `{"tokens":{"access_token":"a","refresh_token":"r"}}`,
		`{"tokens":{"access_token":"a.!!.c","refresh_token":"r"}}`, `{"tokens":{"access_token":"a.e30.c","refresh_token":"r"}}`,
	} {
		writeTestFile(t, filepath.Join(home, loginFiles[0]), login)
		if got, renewable := tokenEnd(home); renewable {
			t.Errorf("%s ends at %s", login, got)
		}
	}
}
