package caddymodule

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/status"
)

// TestPage checks the routes of the page: they exist with the option only, the files need
// no key, and the state does.
func TestPage(t *testing.T) {
	h := started(t, APIKey{Key: "k", User: "ann"})
	for _, path := range []string{"/codex", "/codex/", "/codex/main.js", "/codex/status"} {
		if _, err := ask(h, http.MethodGet, path, "k", nil); !errors.Is(err, errNext) {
			t.Errorf("%s is answered without the option: %v", path, err)
		}
	}
	h.Page = true
	for target, want := range map[string]int{
		"GET /codex/": 200, "HEAD /codex/": 200, "POST /codex/": 405, "GET /codex/main.js": 200, "DELETE /codex/main.js": 405,
		"GET /codex": 308, "GET /codex/status": 401, "POST /codex/status": 401,
	} {
		method, path, _ := strings.Cut(target, " ")
		if w, err := ask(h, method, path, "", nil); err != nil || w.Code != want {
			t.Errorf("%s: %d (%v), want %d", target, w.Code, err, want)
		}
	}
	for _, path := range []string{"/codex/none.js", "/codex/../page.go", "/codex/files/main.js", "/codexes", "/codex//"} {
		if _, err := ask(h, http.MethodGet, path, "", nil); !errors.Is(err, errNext) {
			t.Errorf("%s is not passed on: %v", path, err)
		}
	}
	w, err := ask(h, http.MethodGet, "/codex/status", "k", nil)
	body := gjson.Parse(w.Body.String())
	if err != nil || w.Code != 200 || body.Get("app_servers.0.state").Str != "ready" || !body.Get("turns.running").Exists() || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %s (%v)", w.Code, w.Body, err)
	}
	for _, secret := range []string{"pid", "home", "program"} {
		if found := body.Get("app_servers.0." + secret); found.Exists() {
			t.Errorf("it shows %s", found.Raw)
		}
	}
}

// TestPublicStatus checks for every field of the status that somebody has decided whether
// every caller may see it.
func TestPublicStatus(t *testing.T) {
	private := []string{"Program", "Home", "Reason", "PID"}
	var all status.AppServer
	at := time.Now()
	value := reflect.ValueOf(&all).Elem()
	fields := reflect.VisibleFields(value.Type())
	for _, field := range fields {
		switch f := value.FieldByIndex(field.Index); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Int, reflect.Int64:
			f.SetInt(1)
		case reflect.Pointer:
			if f.Type() == reflect.TypeFor[*time.Time]() {
				f.Set(reflect.ValueOf(&at))
			}
		}
	}
	public := reflect.ValueOf(all.Public(""))
	for _, field := range fields {
		hidden := public.FieldByIndex(field.Index).IsZero() || field.Tag.Get("json") == "-"
		private := slices.Contains(private, field.Name) || field.Tag.Get("json") == "-"
		if private != hidden && !value.FieldByIndex(field.Index).IsZero() {
			t.Errorf("%s: it is shown: %v", field.Name, !hidden)
		}
	}
}
