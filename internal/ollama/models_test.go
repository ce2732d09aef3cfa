package ollama

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
)

// listed are the models of a request.
type listed []api.Model

func (l listed) Names() (names []string) {
	for _, m := range l {
		names = append(names, m.Name)
	}
	return names
}

func (l listed) Find(name string) (api.Model, bool) {
	i := slices.IndexFunc(l, func(m api.Model) bool { return m.Name == name })
	return l[i], true
}

func (listed) Allows(string) bool { return true }

// listCall is a request for the list of models.
type listCall struct {
	api.Call
	models listed
}

func (c listCall) Models() (api.Models, *apierror.Error) { return c.models, nil }

// TestModels: the bodies that clients read strictly, in full.
func TestModels(t *testing.T) {
	at := time.Date(2026, 11, 24, 8, 0, 0, 123456000, time.UTC)
	known, unknown := api.Model{Name: "gpt-x", Title: "GPT-X", Window: 272000, Modified: at}, api.Model{Name: "a:b", Blind: true, Modified: at}
	const details = `"details":{"parent_model":"","format":"","family":"codex","families":["codex"],"parameter_size":"","quantization_level":"","context_length":`
	want := `{"models":[{"name":"gpt-x:latest","model":"gpt-x:latest","modified_at":"2026-11-24T08:00:00.123456Z","size":0,` +
		`"digest":"",` + details + `272000},"capabilities":["completion","tools","thinking","vision"]},` +
		`{"name":"a:b","model":"a:b","modified_at":"2026-11-24T08:00:00.123456Z","size":0,"digest":"",` + details + `128000},"capabilities":["completion","tools","thinking"]}]}`
	list, _ := tags(listCall{models: listed{known, unknown}})
	if got := digest.ReplaceAll(list, []byte(`"digest":""`)); string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if digests := digest.FindAllString(string(list), -1); len(digests) != 2 || digests[0] == digests[1] {
		t.Errorf("the digests %s", digests)
	}
	if got, apiErr := tags(listCall{}); string(got) != `{"models":[]}` || apiErr != nil {
		t.Errorf("%s, %v", got, apiErr)
	}
	show := `{"license":"","modelfile":"","parameters":"num_ctx 272000","template":"{{ .System }}{{ .Tools }}{{ .Prompt }}",` + details + `272000},` +
		`"model_info":{"codex.context_length":272000,"general.architecture":"codex","general.basename":"GPT-X"},"capabilities":["completion","tools","thinking","vision"],"modified_at":"2026-11-24T08:00:00.123456Z"}`
	if got := string(Show(&known)); got != show {
		t.Errorf("got  %s\nwant %s", got, show)
	}
}

// digest matches that of a model. Ollama's program fails at shorter ones.
var digest = regexp.MustCompile(`"digest":"[0-9a-f]{64}"`)

// TestDecodeName: older clients call the model its name.
func TestDecodeName(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"a","system":"","options":null}`: "a", `{"name":"a"}`: "a", `{"model":"","name":"a"}`: "a", `{"name":"b","model":"a"}`: "a",
		`{}`: "", `{"model":7}`: "", `[]`: "", ``: "",
	} {
		if got, apiErr := DecodeName([]byte(body)); got != want || (apiErr == nil) != (want != "") {
			t.Errorf("%s: %q, %v", body, got, apiErr)
		}
	}
}

// TestBare: the tag that clients append.
func TestBare(t *testing.T) {
	for name, want := range map[string]string{"a:latest": "a", "a": "a", "a:7b": "a:7b", ":latest": ""} {
		if got, tagged := Bare(name); got != want || tagged != (name != want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
