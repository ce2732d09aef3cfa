package chat

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/draw"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// numbered returns a text of n bytes with unique, long lines: what is escaped costs most to read.
func numbered(n int) string {
	var text strings.Builder
	plain := strings.Repeat(" and plain text", 30)
	for i := 0; text.Len() < n; i++ {
		fmt.Fprintf(&text, "%08d: \"ünïcode\" ✓ 😀 <tag> \\ and\ttab%s\n", i, plain)
	}
	whole := strings.ToValidUTF8(text.String()[:n], "")
	return whole + strings.Repeat("x", n-len(whole))
}

// longSite returns a site whose operator has set a window for everything that the model may get.
func longSite(t *testing.T, options string) *e2e.Site {
	s := e2e.NewSiteWith(t, codexhome.Options{More: "model_context_window = 100000000\n"}, options)
	s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("ok")}}, !r.IsCompaction()
	})
	return s
}

// asked posts a request and returns the one request that the model gets.
func asked(s *e2e.Site, path string, body e2e.Fields) scriptedmodel.Request {
	s.T.Helper()
	before := s.Model.Stats().Requests
	if response, text := s.Call(http.MethodPost, path, body, nil); response.StatusCode != http.StatusOK {
		s.T.Fatal(response.Status, text)
	}
	if n := s.Model.Stats().Requests - before; n != 1 {
		s.T.Fatalf("the model was asked %d times", n)
	}
	request, _ := s.Model.Last()
	return request
}

// sameText compares long texts without showing them.
func sameText(t *testing.T, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	same := 0
	for same < min(len(got), len(want)) && got[same] == want[same] {
		same++
	}
	t.Errorf("the model was given %d bytes, not %d, and others from byte %d on: %.80q", len(got), len(want), same, got[same:])
}

// TestLongHistory checks that a history which goes into its thread in pieces reaches the model
// whole and in its order: many short messages, and some that are longer than a piece.
func TestLongHistory(t *testing.T) {
	s := longSite(t, "")
	all := numbered(6_000_000)
	var messages []any
	want := all
	for i := 0; all != ""; i++ {
		n := min(len(all), []int{10, 2_000, 90_000, 300_000, 1_100_000}[i%5])
		for n < len(all) && all[n]&0xC0 == 0x80 {
			n++ // not within a character
		}
		messages = append(messages, e2e.Fields{"role": []string{"user", "assistant"}[i%2], "content": all[:n]})
		all = all[n:]
	}
	request := asked(s, "/v1/chat/completions", e2e.Fields{"model": "gpt-6-astra", "messages": append(messages, e2e.Fields{"role": "user", "content": "q"})})
	var got strings.Builder
	for _, item := range request.Input {
		for _, part := range item.Content {
			got.WriteString(part.Text)
		}
	}
	at := strings.Index(got.String(), "00000000:")
	sameText(t, got.String()[max(0, at):], want+"q")
}

// TestLongToolResults checks that long results of tools reach the model unchanged. What Codex would
// leave out depends on the model and the length, not on the API, so the APIs take turns.
func TestLongToolResults(t *testing.T) {
	s := longSite(t, "")
	for model, sizes := range map[string][]int{
		"gpt-5":              {1e3, 13e3, 60e3, 500e3, 1e6, 10e6}, // not in Codex's catalogue
		"gpt-6-astra":        {1e3, 13e3, 60e3, 500e3, 1e6, 2e6},
		"gpt-5.5-2026-01-01": {1e6, 14e3},
		"other/model":        {14e3, 1e6},
	} {
		for i, size := range sizes {
			result := numbered(size)
			check := func(turn int, name, path string, body e2e.Fields) {
				if i%2 != turn && draw.Cases(1, 2) == 1 {
					return
				}
				t.Run(fmt.Sprintf("%s/%d/%s", model, size, name), func(t *testing.T) {
					request := asked(s.At(t), path, body)
					last := request.Input[len(request.Input)-1]
					if last.Type != "function_call_output" || len(last.Output) != 1 {
						t.Fatalf("the last item is a %s of %d parts", last.Type, len(last.Output))
					}
					sameText(t, last.Output[0].Text, result)
				})
			}
			check(1, "chat", "/v1/chat/completions", e2e.Fields{"model": model, "messages": []any{
				e2e.Fields{"role": "user", "content": "q"},
				e2e.Fields{"role": "assistant", "tool_calls": []any{
					e2e.Fields{"id": "c", "type": "function", "function": e2e.Fields{"name": "f", "arguments": "{}"}}}},
				e2e.Fields{"role": "tool", "tool_call_id": "c", "content": result},
			}})
			check(0, "responses", "/v1/responses", e2e.Fields{"model": model, "store": false, "input": []any{
				e2e.Says("user", "q"),
				e2e.Fields{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
				e2e.Fields{"type": "function_call_output", "call_id": "c", "output": []any{e2e.Fields{"type": "input_text", "text": result}}},
			}})
		}
	}
}

// TestLongTexts checks other long texts, with a model that Codex knows or one that it does not.
func TestLongTexts(t *testing.T) {
	s := longSite(t, "")
	text, shorter := numbered(1.2e6), numbered(1e6)
	arguments := strings.TrimSpace(e2e.EncodeJSON(e2e.Fields{"a": text}))
	user := func(text string) any { return e2e.Fields{"role": "user", "content": text} }
	for name, c := range map[string]struct {
		model    string
		messages []any
		found    func(scriptedmodel.Request) string
		want     string
	}{
		"user":          {"gpt-5", []any{user(text), user("q")}, itemText(1), text},
		"user at last":  {"gpt-5.5", []any{user("q"), user(text)}, itemText(2), text},
		"a turn's text": {"gpt-5", []any{user("q"), user(shorter)}, itemText(2), shorter},
		"instructions":  {"gpt-5.5", []any{e2e.Fields{"role": "system", "content": text}, user("q")}, itemText(0), text},
		"developer":     {"gpt-5", []any{user("q"), e2e.Fields{"role": "developer", "content": text}, user("q")}, itemText(2), text},
		"assistant":     {"gpt-5.5", []any{user("q"), e2e.Fields{"role": "assistant", "content": text}, user("q")}, itemText(2), text},
		"arguments": {"gpt-5", []any{
			user("q"),
			e2e.Fields{"role": "assistant", "tool_calls": []any{
				e2e.Fields{"id": "c", "type": "function", "function": e2e.Fields{"name": "f", "arguments": arguments}}}},
			e2e.Fields{"role": "tool", "tool_call_id": "c", "content": "r"},
		}, func(r scriptedmodel.Request) string { return r.Input[len(r.Input)-2].Arguments }, arguments},
	} {
		t.Run(name, func(t *testing.T) {
			models := []string{c.model}
			if draw.Cases(1, 2) > 1 {
				models = []string{"gpt-5", "gpt-5.5"}
			}
			for _, model := range models {
				sameText(t, c.found(asked(s.At(t), "/v1/chat/completions", e2e.Fields{"model": model, "messages": c.messages})), c.want)
			}
		})
	}
	t.Run("description", func(t *testing.T) {
		search := e2e.Tool("localSearch")
		search["function"].(map[string]any)["description"] = text
		request := asked(s.At(t), "/v1/chat/completions", e2e.Fields{"model": "gpt-5.5", "messages": []any{user("q")}, "tools": []any{search}})
		found, _ := request.Tool("localSearch")
		sameText(t, found.Description, text)
	})
	t.Run("image", func(t *testing.T) {
		picture := noise(t)
		request := asked(s.At(t), "/v1/chat/completions", e2e.Fields{"model": "gpt-5.5", "messages": []any{e2e.Fields{"role": "user", "content": []any{
			e2e.Fields{"type": "text", "text": "q"}, e2e.Fields{"type": "image_url", "image_url": e2e.Fields{"url": picture}},
		}}}})
		found := ""
		for _, part := range request.Input[len(request.Input)-1].Content {
			found += part.ImageURL
		}
		sameText(t, found, picture)
	})
}

// itemText reads the text of an input item. The first are the instructions, a field in older Codex.
func itemText(i int) func(scriptedmodel.Request) string {
	return func(r scriptedmodel.Request) string {
		if r.Instructions == "" {
			return r.Input[i].Content.String()
		}
		if i == 0 {
			return r.Instructions
		}
		return r.Input[i-1].Content.String()
	}
}

// noise returns the data URL of an image of some 1.5 MB, which models accept.
func noise(t *testing.T) string {
	t.Helper()
	picture := image.NewNRGBA(image.Rect(0, 0, 720, 720))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range picture.Pix {
		picture.Pix[i] = byte(random.Uint32())
	}
	var encoded bytes.Buffer
	must.OK(t, png.Encode(&encoded, picture))
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(encoded.Bytes())
}

// isTooLong reports whether the conversation of a request is refused as too long. The
// header of a stream is sent after a second, so on a busy machine the error is in the stream.
func isTooLong(response *http.Response, text string, stream bool) bool {
	return strings.Contains(text, `"code":"context_length_exceeded"`) && !strings.Contains(text, `"choices"`) &&
		(response.StatusCode == http.StatusBadRequest || stream && response.StatusCode == http.StatusOK)
}

// TestContextLength checks that within the window only the provider decides whether a conversation is too long.
func TestContextLength(t *testing.T) {
	s := e2e.NewSiteWith(t, codexhome.Options{More: "model_context_window = 100000000\n"}, "")
	long := e2e.Fields{"role": "user", "content": numbered(2e6)}
	for _, stream := range []bool{false, true} {
		for _, end := range []string{"fail:context_length_exceeded", "http:413"} {
			body := e2e.Fields{"model": "gpt-5.5", "stream": stream, "messages": []any{long, e2e.Fields{"role": "user", "content": end}}}
			before := s.Model.Stats().Requests
			response, text := s.Post(e2e.EncodeJSON(body), nil)
			want := 1
			if e2e.Transport == scriptedmodel.WebSocket && end == "http:413" {
				want = 2 // the second time over HTTP
			}
			if n := s.Model.Stats().Requests - before; n != want {
				t.Errorf("the model was asked %d times, want %d", n, want)
			}
			if !isTooLong(response, text, stream) {
				t.Errorf("%s: %s %.300s", end, response.Status, text)
			}
		}
	}
}
