package operations

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestRecordings records requests that fail, those that a switch names, and all, each once; a reload keeps what
// was recorded, and only its user sees it on the page.
func TestRecordings(t *testing.T) {
	s := e2e.NewSite(t, "")
	keys := e2e.NewKeyFile(t, map[string]string{"sk-ann": "user ann", "sk-bob": "user bob"})
	options := "page on\napi_keys_file " + keys.Path + "\nrecord "
	admin := s.WithAdmin(s.Caddyfile(options + "errors"))
	load := func(record string) {
		t.Helper()
		s.Load(strings.Replace(s.Caddyfile(options+record), "admin off", "admin "+admin.Addr, 1))
	}
	s.WaitReadyAs(e2e.Bearer("sk-ann"))
	ask := func(key, prompt string) (id, answer string) {
		t.Helper()
		response, answer := s.Post(e2e.ChatBody(prompt, e2e.Fields{"stream": true}), e2e.Bearer(key))
		return response.Header.Get("X-Request-Id"), answer
	}
	_, before := admin.Get("/codex/trace") // with the recordings of other tests
	// all returns the ids of the new recordings, once there are so many.
	all := func(n int) (ids []string) {
		t.Helper()
		e2e.WaitFor(t, fmt.Sprint(n, " recordings"), func() bool {
			_, text := admin.Get("/codex/trace")
			ids = nil
			for _, id := range gjson.Get(text, "recordings.#.request_id").Array() {
				if !strings.Contains(before, id.Str) {
					ids = append([]string{id.Str}, ids...) // the oldest first
				}
			}
			return len(ids) >= n
		})
		return ids
	}

	var want []string
	record := func(wanted bool, key, prompt string) (answer string) {
		t.Helper()
		id, answer := ask(key, prompt)
		if wanted {
			want = append(want, id)
		}
		if got := all(len(want)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("after %q recordings of %q, want %q", prompt, got, want)
		}
		return answer
	}
	record(false, "sk-ann", "say:Fine.")
	record(true, "sk-ann", "fail:server_error")

	response, text := admin.Call(http.MethodPost, "/codex/trace", fmt.Sprintf(`{"key":"%x","requests":2,"minutes":5,"texts":true}`, "sk-bob"), http.Header{"Content-Type": {"application/json"}})
	if response.StatusCode != http.StatusOK || gjson.Get(text, "switches.0.requests").Int() != 2 {
		t.Fatal(response.Status, text)
	}
	if _, text := admin.Get("/codex/status"); gjson.Get(text, "recording.0").Str != "errors, texts: false" || gjson.Get(text, "recording.#").Int() != 2 {
		t.Errorf("the status is %s", text)
	}
	record(false, "sk-ann", "say:Fine.")
	withTexts := record(true, "sk-bob", "say:With texts.")
	record(true, "sk-bob", "say:Again.")
	record(false, "sk-bob", "say:One too many.")

	directory := filepath.Join(t.TempDir(), "records")
	load("all {\ndirectory " + directory + "\n}")
	s.WaitReadyAs(e2e.Bearer("sk-ann"))
	answer := record(true, "sk-ann", "say:A word that is private.")
	checkRecording(t, admin, want[3], "private")
	checkRecording(t, admin, want[1], "sk-bob")
	if got := answerOf(t, admin, want[1]); got != withTexts || got == "" {
		t.Errorf("the client got %q, and this was recorded: %q", withTexts, got)
	}
	if got := answerOf(t, admin, want[3]); len(got) != len(answer) || got == answer {
		t.Errorf("the client got %q, and this was recorded without texts: %q", answer, got)
	}
	var files []string
	e2e.WaitFor(t, "a file", func() bool {
		files, _ = filepath.Glob(filepath.Join(directory, "*-"+want[3]+".jsonl"))
		return len(files) == 1
	})
	if _, text := admin.Get("/codex/trace?id=" + want[3]); e2e.ReadFile(t, files[0]) != text {
		t.Error("the file has another recording")
	}

	checkHostile(t, s, want)
}

// answerOf returns what a recording says that the client got.
func answerOf(t *testing.T, admin *e2e.Site, id string) (answer string) {
	t.Helper()
	_, text := admin.Get("/codex/trace?id=" + id)
	entries, err := recorder.Parse([]byte(text))
	must.OK(t, err)
	for _, e := range entries {
		if e.Dir == recorder.ToClient {
			answer += e.Text
		}
	}
	return answer
}

// checkRecording checks that a recording is complete and lacks a text.
func checkRecording(t *testing.T, admin *e2e.Site, id, secret string) {
	t.Helper()
	response, text := admin.Call(http.MethodGet, "/codex/trace?id="+id, nil, nil)
	for _, want := range []string{`"turn/start"`, `"turn/completed"`, `"dir":"read"`, `"dir":"parts"`, `"dir":"end"`, id} {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %s: %s", id, want, text)
		}
	}
	if strings.Contains(text, secret) || response.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%v, %s", response.Header, text)
	}
	if _, text := admin.Get("/codex/trace?timeline&id=" + id); gjson.Get(text, "head.request_id").Str != id || gjson.Get(text, `phases.#(name="model")`).Raw == "" {
		t.Errorf("the timeline is %s", text)
	}
}

// checkHostile checks that bob sees none of the recordings of ann, which are the first and the last one, and
// that both see their own.
func checkHostile(t *testing.T, s *e2e.Site, ids []string) {
	t.Helper()
	of := func(key, path string) (int, string) {
		response, text := s.Call(http.MethodGet, path, nil, e2e.Bearer(key))
		return response.StatusCode, text
	}
	for _, id := range []string{ids[0], ids[3]} {
		for _, path := range []string{
			"/codex/trace?id=" + id, "/codex/trace?timeline&id=" + id, "/codex/trace?id=x&id=" + id, "/codex/trace/?id=" + id, "/codex/trace/" + id,
			"/codex/trace", "/codex/trace?user=ann", "/codex/admin/trace?id=" + id, "/v1/usage/raw", "/codex/status", "/v1/codex/trace?id=" + id,
		} {
			if status, text := of("sk-bob", path); strings.Contains(text, "ann@") || strings.Contains(text, id) && status == http.StatusOK {
				t.Errorf("bob sees %s: %d %s", path, status, text)
			}
		}
		if status, text := of("sk-ann", "/codex/trace?id="+id); status != http.StatusOK || !strings.Contains(text, id) {
			t.Errorf("ann's own: %d %s", status, text)
		}
		if _, text := of("sk-ann", "/v1/usage/raw"); !gjson.Get(text, `data.#(request_id="`+id+`").recorded`).Bool() {
			t.Errorf("ann's usage does not link %s: %s", id, text)
		}
	}
	// The switch for bob's texts was the operator's: the site itself records none.
	if status, text := of("sk-bob", "/codex/trace?id="+ids[1]); status != http.StatusNotFound {
		t.Errorf("bob's own with texts: %d %s", status, text)
	}
}
