package rig

import (
	"encoding/json"
	"os"
	"testing"
	"time"
)

// TestModel asks a model for a stream, and looks at what was measured.
func TestModel(t *testing.T) {
	model, err := NewModel(true)
	if err != nil {
		t.Fatal(err)
	}
	if config, err := os.ReadFile(model.Home + "/config.toml"); err != nil || len(config) == 0 {
		t.Errorf("%q, %v", config, err)
	}
	start := time.Now()
	ask := func(path string) (Answer, error) {
		return Stream(t.Context(), model.URL+path, map[string]any{
			"model": "gpt-5", "stream": true, "input": []any{map[string]any{
				"type": "message", "role": "user", "content": []any{map[string]string{"type": "input_text", "text": "chunk=5; say:word word word"}},
			}},
		}, func(data string) (string, error) {
			var event struct{ Delta string }
			err := json.Unmarshal([]byte(data), &event)
			return event.Delta, err
		})
	}
	a, err := ask("/responses")
	if err != nil || a.Chunks != 3 || a.Text != "word word word" || a.First > a.Whole || model.Asked().Before(start) {
		t.Errorf("%+v, %v, asked at %s", a, err, model.Asked())
	}
	if _, err := ask("/nothing"); err == nil {
		t.Error("a 404 is no error")
	}
	model.Close()
	if _, err := os.Stat(model.Home); !os.IsNotExist(err) {
		t.Error("the home is still there:", err)
	}
	if _, err := ask("/responses"); err == nil {
		t.Error("a model that is closed answers")
	}
}

func TestPercentile(t *testing.T) {
	times := []time.Duration{5, 1, 4, 2, 3}
	for percent, want := range map[int]time.Duration{0: 1, 50: 3, 95: 5, 100: 5} {
		if got := Percentile(times, percent); got != want {
			t.Errorf("%d of 100 are within %d, want %d", percent, got, want)
		}
	}
	if Percentile(nil, 50) != 0 {
		t.Error("nothing takes time")
	}
}
