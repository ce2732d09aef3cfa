package caddymodule

import (
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// recorded sends a request that is refused, and waits for its recording. It returns the id of the request.
func recorded(t *testing.T, h *Handler, key string) string {
	t.Helper()
	id := "req-" + rand.Text()
	w := askWith(h, http.MethodPost, "/v1/chat/completions", `{"model":"SECRET`, http.Header{"Authorization": {"Bearer " + key}, "X-Request-Id": {id}}, nil)
	if w.Code != http.StatusBadRequest {
		t.Fatal(w.Code, w.Body)
	}
	must.Happen(t, "a recording is made", func() bool { return textOf(id) != "" })
	return id
}

// textOf returns the recording of a request, or "".
func textOf(id string) string {
	found, _ := findRecording(recordings.List(everybody), url.Values{"id": {id}})
	text, _ := found.(string)
	return text
}

// allOff turns all switches off at the end of a test.
func allOff(t *testing.T) {
	t.Cleanup(func() { recordings.SwitchOff() })
}

// traces returns the body of a route of the page for a key.
func traces(t *testing.T, h *Handler, method, query, key string) (status int, body gjson.Result) {
	t.Helper()
	w, err := ask(h, method, "/codex/trace"+query, key, nil)
	must.OK(t, err)
	return w.Code, gjson.Parse(w.Body.String())
}

// TestRecordingsAreTheCallersOwn: who asks for another's recording learns no more than of one that does not exist.
func TestRecordingsAreTheCallersOwn(t *testing.T) {
	allOff(t)
	ann, ben := "ann-"+rand.Text(), "ben-"+rand.Text()
	h := fakeHandler(t, t.Name())
	h.Page, h.Record.Mode, h.APIKeys = true, recorder.All, []APIKey{{Key: "k-ann", User: ann}, {Key: "k-ben", User: ben}}
	h = running(t, h)
	id := recorded(t, h, "k-ann")
	if status, body := traces(t, h, "GET", "", "k-ann"); status != 200 || body.Get("recordings.0.request_id").Str != id || body.Get("recordings.#").Int() != 1 {
		t.Errorf("ann sees %d %s", status, body)
	}
	status, body := traces(t, h, "GET", "?id="+id, "k-ann")
	if entries, err := recorder.Parse([]byte(body.Str)); status != 200 || err != nil || len(entries) < 3 {
		t.Errorf("ann's recording is %d %s, %v", status, body, err)
	}
	if status, body := traces(t, h, "GET", "?timeline&id="+id, "k-ann"); status != 200 || body.Get("head.request_id").Str != id || body.Get("rows.#").Int() == 0 {
		t.Errorf("ann's timeline is %d %s", status, body)
	}
	for _, query := range []string{
		"?id=" + id, "?id=" + id + "&timeline", "?timeline&id=" + id + "&user=" + ann, "?id=x&id=" + id, "?id=" + id + "&texts=true",
		"?id=", "?id=*", "?id=../" + id, "?id=no-such-one",
	} {
		status, got := traces(t, h, "GET", query, "k-ben")
		if status != http.StatusNotFound || got.Get("error.code").Str != "not_found" || strings.Contains(got.Raw, id) || strings.Contains(got.Raw, ann) {
			t.Errorf("ben gets %d %s with %s", status, got, query)
		}
	}
	for _, target := range []string{"GET ", "POST ", "GET ?user=" + ann, "GET ?timeline", "POST ?user=" + ann} {
		method, query, _ := strings.Cut(target, " ")
		if status, got := traces(t, h, method, query, "k-ben"); status != 200 || strings.Contains(got.Raw, ann) || strings.Contains(got.Raw, id) {
			t.Errorf("%s shows ben %d %s", target, status, got)
		}
	}
	for key, want := range map[string]int{"": 401, "k-eve": 401} {
		if status, got := traces(t, h, "GET", "?id="+id, key); status != want {
			t.Errorf("with the key %q: %d %s", key, status, got)
		}
	}
	if status, _ := traces(t, h, "DELETE", "", "k-ben"); status != http.StatusMethodNotAllowed {
		t.Errorf("ben can turn off what the operator has turned on: %d", status)
	}
	w, err := ask(h, "GET", "/v1/usage/raw", "k-ann", nil)
	if must.OK(t, err); !gjson.Get(w.Body.String(), `data.#(request_id="`+id+`").recorded`).Bool() {
		t.Errorf("the usage does not link the recording: %s", w.Body)
	}
	// The id of a request is no secret, and anybody can send it again.
	askWith(h, "POST", "/v1/chat/completions", `{`, http.Header{"Authorization": {"Bearer k-ben"}, "X-Request-Id": {id}}, nil)
	must.Happen(t, "ben has a recording", func() bool { _, own := traces(t, h, "GET", "", "k-ben"); return own.Get("recordings.#").Int() == 1 })
	if _, body := traces(t, h, "GET", "?id="+id, "k-ben"); strings.Contains(body.Str, ann) {
		t.Errorf("ben sees %s", body)
	}
	if _, body := traces(t, h, "GET", "", "k-ann"); body.Get("recordings.#").Int() != 1 || body.Get("recordings.0.user").Str != ann {
		t.Errorf("ann sees %s", body)
	}
}

// TestRecordedTexts: texts are shown on the page only if the site records them, and only to who has sent them.
func TestRecordedTexts(t *testing.T) {
	allOff(t)
	ann, ben := "ann-"+rand.Text(), "ben-"+rand.Text()
	h := fakeHandler(t, t.Name())
	h.Page, h.Usage, h.Record, h.APIKeys = true, usageAll, Record{Mode: recorder.All}, []APIKey{{Key: "k-ann", User: ann}, {Key: "k-ben", User: ben}}
	h = running(t, h)
	count := func(key string) (n int) {
		_, body := traces(t, h, "GET", "", key)
		for _, rec := range body.Get("recordings").Array() {
			if rec.Get("user").Str == ann {
				n++
			}
		}
		return n
	}
	without := recorded(t, h, "k-ann")
	if count("k-ann") != 1 || count("k-ben") != 0 {
		t.Error("with `usage all`, others see the recordings of ann")
	}
	must.OK(t, recordings.Switch(recorder.Switch{User: ann, Requests: 1, Texts: true}))
	with := recorded(t, h, "k-ann")
	for id, want := range map[string]bool{with: true, without: false} {
		if text := textOf(id); strings.Contains(text, "SECRET") != want {
			t.Errorf("with texts (%t): %s", want, text)
		}
	}
	if count("k-ann") != 1 || count("k-ben") != 0 {
		t.Error("the texts are shown, though the site does not record them")
	}
	h.Record.Texts = true
	if count("k-ann") != 2 || count("k-ben") != 0 {
		t.Error("the texts are shown to others, or not to ann")
	}
}

// TestRecordOwn: a user lets the next ten requests be recorded, and nobody else's.
func TestRecordOwn(t *testing.T) {
	allOff(t)
	ann, ben := "ann-"+rand.Text(), "ben-"+rand.Text()
	h := fakeHandler(t, t.Name())
	h.Page, h.APIKeys = true, []APIKey{{Key: "k-ann", User: ann}, {Key: "k-ben", User: ben}}
	h = running(t, h)
	for range 2 { // the second one replaces the first
		status, body := traces(t, h, "POST", "", "k-ann")
		if on := body.Get("switches"); status != 200 || on.Get("#").Int() != 1 || on.Get("0.requests").Int() != 10 || !on.Get("0.own").Bool() || on.Get("0.texts").Bool() {
			t.Errorf("%d %s", status, body)
		}
	}
	if _, body := traces(t, h, "GET", "", "k-ben"); body.Get("switches.#").Int() != 0 {
		t.Errorf("ben sees %s", body)
	}
	for range 10 {
		recorded(t, h, "k-ann")
	}
	askWith(h, "POST", "/v1/chat/completions", `{`, http.Header{"Authorization": {"Bearer k-ben"}}, nil)
	askWith(h, "POST", "/v1/chat/completions", `{`, http.Header{"Authorization": {"Bearer k-ann"}}, nil)
	for key, want := range map[string]int64{"k-ann": 10, "k-ben": 0} {
		if _, body := traces(t, h, "GET", "", key); body.Get("recordings.#").Int() != want || body.Get("switches.#").Int() != 0 {
			t.Errorf("%s has %s", key, body)
		}
	}
}

// admin sends a request to the admin API's route.
func admin(t *testing.T, method, query, body string) (status int, header http.Header, text string) {
	t.Helper()
	w := httptest.NewRecorder()
	if err := serveRecordings(w, httptest.NewRequest(method, "/codex/trace"+query, strings.NewReader(body))); err != nil {
		return err.(caddy.APIError).HTTPStatus, w.Header(), err.Error()
	}
	return w.Code, w.Header(), w.Body.String()
}

// TestAdminTrace checks the admin API's route.
func TestAdminTrace(t *testing.T) {
	allOff(t)
	h := fakeHandler(t, t.Name())
	h.Record.Mode = recorder.Errors
	h = running(t, h)
	id := recorded(t, h, "")
	if status, header, text := admin(t, "GET", "?id="+id, ""); status != 200 || header.Get("Content-Type") != "application/x-ndjson" || text != textOf(id) {
		t.Errorf("%d %v %s", status, header, text)
	}
	if status, _, text := admin(t, "GET", "?id="+id+"&timeline", ""); status != 200 || gjson.Get(text, "head.request_id").Str != id {
		t.Errorf("%d %s", status, text)
	}
	if status, _, text := admin(t, "GET", "?id=none", ""); status != http.StatusNotFound || !strings.Contains(text, "no recording") {
		t.Errorf("%d %s", status, text)
	}
	for body, want := range map[string]string{
		"": "the body must be JSON", "[]": "the body must be JSON", "null": "one object is needed", `{} x`: "one object is needed", "{}}": "one object is needed", `{"usr":"ann"}`: `unknown field "usr"`, `{"own":true}`: `unknown field "own"`, `{"requests":-1}`: "requests must be 0",
		`{"minutes":0}`: "minutes above 0", `{"minutes":1441}`: "at most 1440", `{"minutes":1e300}`: "at most 1440", `{"user":"` + strings.Repeat("x", 64<<10) + `"}`: "too large",
	} {
		if status, _, text := admin(t, "POST", "", body); status != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%.40s: %d %s, want %s", body, status, text, want)
		}
	}
	status, _, text := admin(t, "POST", "", `{"user":"u","key":"k","requests":3,"minutes":1.5,"texts":true}`)
	on := gjson.Get(text, "switches.0")
	until, err := time.Parse(time.RFC3339, on.Get("until").Str)
	if status != 200 || on.Get("user").Str != "u" || on.Get("key").Str != "k" || on.Get("requests").Int() != 3 || !on.Get("texts").Bool() || on.Get("own").Bool() ||
		err != nil || time.Until(until) > 90*time.Second || time.Until(until) < 30*time.Second {
		t.Errorf("%d %s", status, text)
	}
	if said := strings.Join(recordStatus(), "; "); said != `errors, texts: false; switched on for user "u" and key "k", texts: true` {
		t.Errorf("the status says %s", said)
	}
	if status, _, text := admin(t, "DELETE", "", ""); status != 200 || gjson.Get(text, "switches.#").Int() != 0 {
		t.Errorf("%d %s", status, text)
	}
}

// TestRecordDirectory: files are written, with what the switches record, too; the status says why not.
func TestRecordDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	h := fakeHandler(t, t.Name())
	h.Record = Record{Mode: recorder.All, Directory: path}
	h = running(t, h)
	id := recorded(t, h, "")
	var found []string
	must.Happen(t, "a file is written", func() bool { found, _ = filepath.Glob(filepath.Join(path, "*-"+id+".jsonl")); return len(found) == 1 })
	text, err := os.ReadFile(found[0])
	if must.OK(t, err); string(text) != textOf(id) {
		t.Errorf("the file has %s", text)
	}
	must.OK(t, os.RemoveAll(path))
	must.OK(t, os.WriteFile(path, nil, 0o600))
	recorded(t, h, "")
	must.Happen(t, "the status tells the failure", func() bool { return strings.Contains(strings.Join(recordStatus(), ""), path) })
}
