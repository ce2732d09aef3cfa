package images

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

var (
	made     = turn.Output{Kind: turn.OutputPicture, Text: aPNG, Name: "a \"cat\"", Transparent: true}
	finished = turn.Output{Kind: turn.OutputFinish, End: &turn.End{Usage: codexrpc.Usage{TotalTokens: 5, InputTokens: 3, OutputTokens: 2}}}
)

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// TestBody: a body has the pictures in the order of the choices, without those that failed.
func TestBody(t *testing.T) {
	b := NewEncoder(Meta{Created: 7, Pictures: 3})
	b.Begin(nil)
	second := made
	second.Name = ""
	for choice, out := range map[int]turn.Output{2: second, 0: made} {
		_, _ = b.Write(choice, out), b.Write(choice, finished)
	}
	want := `{"created":7,"data":[{"b64_json":"` + aPNG + `","revised_prompt":"a \"cat\""},{"b64_json":"` + aPNG + `"}],"background":"transparent",` +
		`"output_format":"png","size":"1x1","usage":{"total_tokens":10,"input_tokens":6,"output_tokens":4,"input_tokens_details":{"text_tokens":6,"image_tokens":0}}}`
	if got := string(b.JSON()); !reflect.DeepEqual(decoded(t, got), decoded(t, want)) {
		t.Error(got)
	}
}

// TestStream: each picture is an event, once the usage of its turn is known.
func TestStream(t *testing.T) {
	for _, event := range []string{"image_generation.completed", "image_edit.completed"} {
		var got []string
		s := NewEncoder(Meta{Created: 7, Pictures: 2, isEdit: strings.HasPrefix(event, "image_edit")})
		s.Begin(func(name string, data []byte) error {
			got = append(got, name, string(data))
			return nil
		})
		for _, out := range []turn.Output{made, finished} {
			if err := s.Write(1, out); err != nil || s.Done() || len(got) > 0 && out.Kind == turn.OutputPicture {
				t.Fatal(err, s.Done(), got)
			}
		}
		want := `{"type":"` + event + `","b64_json":"` + aPNG + `","created_at":7,"background":"transparent","output_format":"png","size":"1x1",` +
			`"quality":"auto","usage":{"total_tokens":5,"input_tokens":3,"output_tokens":2,"input_tokens_details":{"text_tokens":3,"image_tokens":0}}}`
		if len(got) != 2 || got[0] != event || !reflect.DeepEqual(decoded(t, got[1]), decoded(t, want)) {
			t.Error(got)
		}
		if err := s.Fail(apierror.QueueFull()); err != nil || !s.Done() || got[2] != "error" || got[3] != string(apierror.QueueFull().Body()) {
			t.Error(err, got[2:])
		}
		if err := s.Write(0, finished); err != nil || len(got) != 4 {
			t.Error("after the end:", got)
		}
	}
}
