package operations

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestAccessLogKeys checks that with the filter of docs/operations.md Caddy's access log has no
// key, in whatever header it comes.
func TestAccessLogKeys(t *testing.T) {
	_, filter, found := strings.Cut(e2e.ReadFile(t, "../../../../docs/operations.md"), "\n    log {\n        format filter {\n")
	filter, _, ended := strings.Cut(filter, "\n    }\n")
	if !found || !ended {
		t.Fatal("docs/operations.md has no filter")
	}
	s, file := e2e.NewUnstarted(t), filepath.Join(t.TempDir(), "access.log")
	config := s.Caddyfile("api_key " + e2e.SecretKey)
	r := s.RunFile(strings.Replace(config, "codex {", "log {\noutput file "+file+"\nformat filter {\n"+filter+"\n}\ncodex {", 1))
	r.WaitUp()
	headers := []http.Header{e2e.Bearer(e2e.SecretKey), {"Api-Key": {e2e.SecretKey}}, {"X-Api-Key": {e2e.SecretKey}}}
	for _, header := range headers {
		if response := r.Do(http.MethodGet, "/v1/models", nil, header); response.StatusCode != http.StatusOK {
			t.Error(header, response.Status)
		}
	}
	e2e.WaitFor(t, "the access log", func() bool {
		log, err := os.ReadFile(file)
		return err == nil && strings.Count(string(log), "/v1/models") >= len(headers)
	})
	if strings.Contains(e2e.ReadFile(t, file), e2e.SecretKey) {
		t.Error("the key is in the access log")
	}
}
