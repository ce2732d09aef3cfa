package chat

import "testing"

// TestModels checks the bodies of GET /v1/models and of GET /v1/models/{id}.
func TestModels(t *testing.T) {
	a, b := `{"id":"a","object":"model","created":42,"owned_by":"codex"}`, `{"id":"b\"/c","object":"model","created":42,"owned_by":"codex"}`
	if got, want := string(Models([]string{"a", `b"/c`}, 42)), `{"object":"list","data":[`+a+`,`+b+`]}`; got != want {
		t.Errorf("list %s, want %s", got, want)
	}
	if got, want := string(Models(nil, 42)), `{"object":"list","data":[]}`; got != want {
		t.Errorf("list %s, want %s", got, want)
	}
	if got := string(Model(`b"/c`, 42)); got != b {
		t.Errorf("model %s, want %s", got, b)
	}
}
