package caddymodule

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	zaptest "go.uber.org/zap/zaptest/observer"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// TestRefusedRequests checks that each request that is refused before its turns is counted in the
// usage and listed, and is one line of the log, with its id and without what it says.
func TestRefusedRequests(t *testing.T) {
	core, logs := zaptest.New(zap.InfoLevel)
	ann := "ann-" + rand.Text()
	h := fakeHandler(t, t.Name())
	h.APIKeys, h.MaxBody, h.Usage = []APIKey{{Key: "right", User: ann}}, 1<<10, usageAll
	h = running(t, h)
	h.refusals.logger = zap.New(core)
	const valid = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	for id, c := range map[string]struct {
		method, path, key, body string
		status                  int
		user                    string
	}{
		"bad":     {http.MethodPost, "/v1/chat/completions", "right", `{"PRIVATE"`, 400, ann},
		"large":   {http.MethodPost, "/v1/chat/completions", "right", strings.Repeat("PRIVATE", 200), 413, ann},
		"who":     {http.MethodPost, "/v1/chat/completions", "PRIVATE", valid, 401, ""},
		"where":   {http.MethodGet, "/v1/nowhere", "right", "", 404, ann},
		"how":     {http.MethodGet, "/v1/chat/completions", "right", "", 405, ann},
		"unknown": {http.MethodGet, "/v1/responses/resp_none", "right", "", 404, ann},
	} {
		id += "-" + rand.Text()
		w := askWith(h, c.method, c.path, c.body, http.Header{"Authorization": {"Bearer " + c.key}, "X-Request-Id": {id}}, nobody)
		if w.Code != c.status {
			t.Errorf("%s: %d %s", id, w.Code, w.Body)
		}
		lines := logs.TakeAll()
		if len(lines) != 1 || lines[0].ContextMap()["request_id"] != id || lines[0].ContextMap()["status"] != int64(c.status) || strings.Contains(fmt.Sprint(lines[0]), "PRIVATE") {
			t.Errorf("%s: the log has %v", id, lines)
		}
		if e := listed(usageBook.Raw(usage.Everybody), id); len(e) != 1 || e[0].Status != c.status || e[0].User != c.user || e[0].Code == "" || e[0].Model != "" {
			t.Errorf("%s: it is listed as %+v", id, e)
		}
	}
	if a := usageBook.Account(ann, 0); a.Requests != 5 || a.Errors != 5 || len(a.ByModel) != 0 || len(a.ByHour) != 1 {
		t.Errorf("the account has %+v", a)
	}
	if w := askWith(h, http.MethodGet, "/v1/models", "", http.Header{"Authorization": {"Bearer right"}}, nobody); w.Code != http.StatusOK || logs.Len() > 0 || usageBook.Account(ann, 0).Requests != 5 {
		t.Errorf("a request that was not refused: %d, %v", w.Code, logs.All())
	}
}

func listed(raw usage.Raw, id string) (found []usage.Entry) {
	for _, e := range raw.Data {
		if e.RequestID == id {
			found = append(found, e)
		}
	}
	return found
}

// TestRefusedByTheServer checks that the line of a request that this server cannot serve says why.
func TestRefusedByTheServer(t *testing.T) {
	core, logs := zaptest.New(zap.InfoLevel)
	h := started(t)
	h.refusals.logger = zap.New(core)
	reqCtx := &requestContext{failure: &apierror.Error{Status: 503, Code: apierror.CodeQueueFull, Message: "for clients", Detail: "for the operator"}}
	r, _ := prepared(http.MethodPost, "/v1/chat/completions")
	h.recordRefusal(r, reqCtx, "chat")
	if lines := logs.TakeAll(); len(lines) != 1 || lines[0].Level != zap.WarnLevel || lines[0].ContextMap()["error"] != "for the operator" {
		t.Errorf("%v", lines)
	}
	reqCtx.failure = apierror.ClientGone()
	if h.recordRefusal(r, reqCtx, "chat"); logs.Len() > 0 {
		t.Errorf("a client that left: %v", logs.All())
	}
}

// TestRefusalFlood checks that a flood of wrong keys, each with names of its own, is counted whole,
// but makes few lines and entries and no accounts or labels, that others are still logged, and that
// a later line says how many were left out.
func TestRefusalFlood(t *testing.T) {
	core, logs := zaptest.New(zap.InfoLevel)
	h := started(t, APIKey{Key: "right", User: "ann"})
	h.refusals.logger = zap.New(core)
	const flood = 3000
	mark := rand.Text() // the book is that of all tests
	size := func() (users, labels int, errors int64) {
		account := usageBook.Account(usage.Everybody, 0)
		metrics, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range metrics {
			labels += len(m.GetMetric())
		}
		return len(account.ByUser), labels, account.Errors
	}
	refuse := func(i int) {
		path := fmt.Sprintf("/v1/responses/resp_%d", i)
		if w := askWith(h, http.MethodGet, path, "", http.Header{"Authorization": {fmt.Sprint("Bearer wrong-", i)}, "X-Request-Id": {fmt.Sprint(mark, i)}}, nobody); w.Code != http.StatusUnauthorized {
			t.Fatal(w.Code)
		}
	}
	refuse(-1)
	users, labels, errors := size()
	for i := range flood {
		refuse(i)
	}
	usersAfter, labelsAfter, errorsAfter := size()
	if usersAfter != users || labelsAfter != labels || errorsAfter != errors+flood {
		t.Errorf("%d → %d users, %d → %d labels, %d → %d errors", users, usersAfter, labels, labelsAfter, errors, errorsAfter)
	}
	entries, _ := json.Marshal(usageBook.Raw(usage.Everybody))
	lines := logs.TakeAll()
	if n := len(lines); n > 2*refusalLines || strings.Count(string(entries), mark) != n { // the minute may have ended once
		t.Errorf("%d lines, and as many entries? %d", n, strings.Count(string(entries), mark))
	}
	chosen, left := h.refusals.choose("another", time.Now())
	for _, line := range lines {
		more, _ := line.ContextMap()["left_out"].(int64)
		left += int(more)
	}
	if !chosen || left+len(lines) != 1+flood {
		t.Errorf("another code: %t; %d lines, and %d were left out", chosen, len(lines), left)
	}
	for range refusalLines {
		h.refusals.choose("another", time.Unix(0, 0))
	}
	if chosen, _ := h.refusals.choose("another", time.Unix(60, 0)); !chosen {
		t.Error("nothing is logged in the next minute")
	}
}

// A wrong key is a line of the log without the key.
func TestWrongKeyLog(t *testing.T) {
	core, logs := zaptest.New(zap.InfoLevel)
	h := started(t, APIKey{Key: "right"})
	h.refusals.logger = zap.New(core)
	refused := func(key string) map[string]any {
		t.Helper()
		if w, err := ask(h, http.MethodGet, "/v1/models?key=s3cret", key, nil); err != nil || w.Code != http.StatusUnauthorized {
			t.Fatalf("%d, %v", w.Code, err)
		}
		lines := logs.TakeAll()
		if len(lines) != 1 {
			t.Fatalf("%d lines", len(lines))
		}
		return lines[0].ContextMap()
	}
	line := refused("s3cret")
	if line["missing"] != false || line["path"] != "/v1/models" || line["method"] != "GET" || line["request_id"] == "" {
		t.Errorf("the line has %v", line)
	}
	for name, value := range line {
		if text, _ := value.(string); strings.Contains(text, "s3cret") {
			t.Errorf("%s has the key: %q", name, text)
		}
	}
	if line := refused(""); line["missing"] != true {
		t.Errorf("the line has %v", line)
	}
	h.Page = true
	for path, handshake := range map[string]string{"/codex/status": "", "/v1/responses": "websocket"} {
		w := askWith(h, http.MethodGet, path, "", http.Header{"Authorization": {"Bearer s3cret"}, "Upgrade": {handshake}}, nobody)
		if lines := logs.TakeAll(); w.Code != http.StatusUnauthorized || len(lines) != 1 || lines[0].ContextMap()["path"] != path {
			t.Errorf("%s: %d, %v", path, w.Code, lines)
		}
	}
	for _, key := range []string{"right", ""} {
		if w, err := ask(h, http.MethodGet, "/healthz", key, nil); err != nil || w.Code != http.StatusOK {
			t.Errorf("%d, %v", w.Code, err)
		}
	}
}
