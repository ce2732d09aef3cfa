package gateway

import (
	"net/http"
	"strings"
	"testing"
)

// onePicture is a PNG in base64.
const onePicture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNiAAAABgADNjd8qAAAAABJRU5ErkJggg=="

// painter is an app-server whose turns make a picture with each of these results, and then say something.
func painter(t testing.TB, results ...string) *fakeUpstream {
	const response = `rawResponse/completed {"usage":{"totalTokens":3,"inputTokens":2,"outputTokens":1}}`
	picture := func(method, status, result string) string {
		return method + ` {"item":{"type":"imageGeneration","id":"c","status":"` + status + `","result":"` + result + `","revisedPrompt":"a cat"}}`
	}
	lines := []string{
		`rawResponseItem/completed {"item":{"type":"function_call","call_id":"c","namespace":"image_gen","name":"imagegen","arguments":"{}"}}`,
		response, picture("item/started", "in_progress", ""),
	}
	for _, result := range results {
		lines = append(lines, picture("item/completed", "completed", result))
	}
	return saying(t, append(lines, `rawResponseItem/completed {"item":{"type":"function_call_output","call_id":"c","output":"made"}}`,
		textPart("There."), `item/completed {"item":{"type":"agentMessage","id":"m","text":"There."}}`, response)...)
}

// TestPicturesOfTheDouble makes pictures, also of hostile results: no answer has anything that is no
// picture, and nothing stays held.
func TestPicturesOfTheDouble(t *testing.T) {
	for name, c := range map[string]struct {
		results []string
		copies  int // of the picture in the answer; none: the request fails
	}{
		"made":        {[]string{onePicture}, 1},
		"two results": {[]string{onePicture, onePicture}, 1},
		"no base64":   {[]string{onePicture[:40] + "<%>"}, 0},
		"no PNG":      {[]string{"aGVsbG8="}, 0},
		"empty":       {[]string{""}, 0},
		"no result":   {nil, 0},
		"a mebibyte":  {[]string{onePicture[:80] + strings.Repeat("AAAA", 1<<18)}, 0}, // more than an answer may have here
	} {
		u := painter(t, c.results...)
		for _, body := range []string{`{"prompt":"x"}`, `{"prompt":"x","stream":true}`} {
			g := newGateway(u, Options{MaxConcurrent: 2})
			g.maxAnswer = 512 << 10
			answer := post(g, "/v1/images/generations", body)
			text := answer.Body.String()
			if strings.Count(text, onePicture) != c.copies || strings.Contains(text, "<%>") {
				t.Errorf("%s, %s: %d %.900s", name, body, answer.Code, text)
			}
			if well := answer.Code == http.StatusOK; name != "a mebibyte" && well != (c.copies > 0) {
				t.Errorf("%s, %s: %d %.300s", name, body, answer.Code, text)
			}
			if name == "a mebibyte" && !strings.Contains(text, "answer_too_large") {
				t.Errorf("%s, %s: %d %.300s", name, body, answer.Code, text)
			}
			if held, running := g.answerBudget.Held(), g.queue.Running(); held != 0 || running != 0 {
				t.Errorf("%s, %s: %d bytes are held, %d turns run", name, body, held, running)
			}
		}
	}
}

// TestHugePicture: a picture that is larger than what a turn may have waiting ends its turn alone.
func TestHugePicture(t *testing.T) {
	g := newGateway(painter(t, onePicture[:80]+strings.Repeat("AAAA", 8<<20)), Options{MaxConcurrent: 2})
	w := post(g, "/v1/images/generations", `{"prompt":"x"}`)
	if w.Code != http.StatusGatewayTimeout || !strings.Contains(w.Body.String(), "codex_too_slow") || g.answerBudget.Held() != 0 {
		t.Errorf("%d %.300s, %d bytes are held", w.Code, w.Body, g.answerBudget.Held())
	}
}
