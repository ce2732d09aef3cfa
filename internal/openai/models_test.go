package openai

import (
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

func TestModels(t *testing.T) {
	models := []codexrpc.Model{{ID: "a", Model: "a"}, {ID: "secret", Model: "secret", Hidden: true}, {ID: `b"/c`, Model: "b"}}
	object := func(id string) string { return `{"id":"` + id + `","object":"model","created":42,"owned_by":"codex"}` }
	if got, want := string(ModelsList(models, 42)), `{"object":"list","data":[`+object("a")+`,`+object(`b\"/c`)+`]}`; got != want {
		t.Errorf("list %s, want %s", got, want)
	}
	if got, want := string(ModelsList(nil, 42)), `{"object":"list","data":[]}`; got != want {
		t.Errorf("empty list %s, want %s", got, want)
	}
	for id, want := range map[string]string{"a": object("a"), "secret": object("secret"), `b"/c`: object(`b\"/c`)} {
		if got, ok := ModelObject(models, id, 42); !ok || string(got) != want {
			t.Errorf("%s: %s, %v", id, got, ok)
		}
	}
	for _, id := range []string{"", "A", "b"} {
		if got, ok := ModelObject(models, id, 42); ok {
			t.Errorf("%q was found: %s", id, got)
		}
	}
}
