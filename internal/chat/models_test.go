package chat

import (
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/api"
)

// twoModels are a model with a window and one whose window is not known.
type twoModels struct{}

func (twoModels) Names() []string { return []string{"a", `b"/c`} }

func (twoModels) Find(name string) (api.Model, bool) {
	return api.Model{Name: name, Window: map[string]int{"a": 272_000}[name], Modified: time.Unix(42, 0)}, name != "d"
}

func (twoModels) Allows(string) bool { return true }

// TestModels checks the bodies of GET /v1/models and of GET /v1/models/{id}.
func TestModels(t *testing.T) {
	a := `{"id":"a","object":"model","created":42,"owned_by":"codex","context_length":272000,"max_model_len":272000}`
	b := `{"id":"b\"/c","object":"model","created":42,"owned_by":"codex"}`
	if got, want := string(Models(twoModels{})), `{"object":"list","data":[`+a+`,`+b+`]}`; got != want {
		t.Errorf("list %s, want %s", got, want)
	}
	for id, want := range map[string]string{"a": a, `b"/c`: b, "d": ""} {
		if got, ok := API.Model(twoModels{}, id); ok != (want != "") || ok && string(got) != want {
			t.Errorf("model %s %t, want %s", got, ok, want)
		}
	}
}
