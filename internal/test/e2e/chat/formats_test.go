package chat

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// optionalSchema is a schema that OpenAI cannot enforce, since not all properties are
// required and others are allowed.
const optionalSchema = `{"type":"object","properties":{"title":{"type":"string"},"count":{"type":"integer","minimum":1}},"required":["title"]}`

// TestSchemaFormats checks that a schema is enforced if the client sets strict, and
// otherwise only described to the model.
func TestSchemaFormats(t *testing.T) {
	s := e2e.NewSite(t, "")
	for name, strict := range map[string]string{"absent": "", "null": `"strict":null,`, "false": `"strict":false,`, "true": `"strict":true,`} {
		t.Run(name, func(t *testing.T) {
			s := s.At(t)
			format := `"name":"form","description":"A form to fill in.",` + strict + `"schema":` + optionalSchema
			for path, body := range map[string]string{
				"/v1/chat/completions": `{"model":"gpt-5","messages":[{"role":"user","content":"say:{}"}],"response_format":{"type":"json_schema","json_schema":{` + format + `}}}`,
				"/v1/responses":        `{"model":"gpt-5","input":"say:{}","text":{"format":{"type":"json_schema",` + format + `}}}`,
			} {
				response := s.Do(http.MethodPost, path, strings.NewReader(body), nil)
				if text := s.Read(response); response.StatusCode != http.StatusOK {
					t.Fatal(text)
				}
				request, _ := s.Model.Last()
				enforced := request.Text.Format.Type == "json_schema" && request.Text.Format.Strict
				told := strings.Contains(strings.Join(e2e.Describe(request), "\n"), "A form to fill in.\n\n"+optionalSchema)
				if wanted := name == "true"; enforced != wanted || told == wanted {
					t.Errorf("%s: the schema is enforced: %t, told: %t", path, enforced, told)
				}
			}
		})
	}
}
