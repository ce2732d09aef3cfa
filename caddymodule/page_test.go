package caddymodule

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/status"
)

// The page's routes exist with the option only, the files need no key, and the state does.
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

// Somebody has decided for every field of the status whether every caller may see it.
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

func getPage(method, name, etag string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, "/codex/"+name, nil)
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	pageRoutes[r.URL.Path].serve(nil, w, r, nil)
	return w
}

func hasPageFile(name string) bool {
	_, ok := pageRoutes[pagePrefix+name]
	return ok
}

var pageContents = func() map[string]string {
	all := make(map[string]string)
	entries, _ := pageFiles.ReadDir("page")
	for _, entry := range entries {
		body, _ := pageFiles.ReadFile("page/" + entry.Name())
		all[entry.Name()] = string(body)
	}
	return all
}()

// TestFiles checks how each file is served: with its type and the policy, not again to who
// has it, and without a body for HEAD.
func TestFiles(t *testing.T) {
	if len(pageContents) < 5 || !hasPageFile("") || !hasPageFile("main.js") || hasPageFile("none.js") || hasPageFile("../page.go") {
		t.Fatalf("there are %d files", len(pageContents))
	}
	for name := range pageContents {
		w := getPage(http.MethodGet, name, "")
		header := w.Header()
		if w.Code != http.StatusOK || w.Body.Len() == 0 || header.Get("Content-Type") == "" || header.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.HasPrefix(header.Get("Content-Security-Policy"), "default-src 'none';") || strings.Contains(header.Get("Content-Security-Policy"), "unsafe") {
			t.Errorf("%s: %d %v", name, w.Code, header)
		}
		if again := getPage(http.MethodGet, name, header.Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s is sent again: %d", name, again.Code)
		}
		if head := getPage(http.MethodHead, name, ""); head.Code != http.StatusOK || head.Body.Len() != 0 {
			t.Errorf("%s: HEAD is %d", name, head.Code)
		}
	}
	if a, b := getPage(http.MethodGet, "", "").Body.String(), pageContents[pageIndex]; a != b {
		t.Error("the page itself is another file")
	}
}

// parses matches what would make HTML or a program of a text.
var parses = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|\.style\b|javascript:`)

var foreign = regexp.MustCompile(`(https?:)?//[a-z0-9.-]+\.[a-z]+`)

// vendored are the files of others, whose comments name their authors' sites.
var vendored = []string{"marked.js", "marked.txt", "highlight.js", "highlight.txt"}

// unused removes what the vendored highlight.js does with an element. The page gives it texts only.
var unused = strings.NewReplacer("unescaped HTML.\",e.innerHTML)", "", "e.innerHTML=r.value", "")

// No file parses a text, has a script or a style within HTML, or names another host.
func TestFilesAreSafe(t *testing.T) {
	for name, body := range pageContents {
		text := strings.ReplaceAll(body, "http://www.w3.org/2000/svg", "")
		if name == "highlight.js" {
			text = unused.Replace(text)
		}
		if found := foreign.FindString(text); found != "" && !slices.Contains(vendored, name) {
			t.Errorf("%s names %s", name, found)
		}
		switch path.Ext(name) {
		case ".js":
			if found := parses.FindString(text); found != "" {
				t.Errorf("%s has %s", name, found)
			}
		case ".html":
			if found := regexp.MustCompile(`<style|style=|<script[^>]*>[^<]|\son[a-z]+=`).FindString(text); found != "" {
				t.Errorf("%s has %s", name, found)
			}
		}
	}
}

// TestReferences checks that all files that a file names exist.
func TestReferences(t *testing.T) {
	found := 0
	for name, body := range pageContents {
		if slices.Contains(vendored, name) {
			continue // templates within it look like references
		}
		for _, m := range regexp.MustCompile(`(?:src|href)="([^#"]+)"|from '\./([^']+)'`).FindAllStringSubmatch(body, -1) {
			found++
			if !hasPageFile(m[1] + m[2]) {
				t.Errorf("%s names %s, which does not exist", name, m[1]+m[2])
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d references were found", found)
	}
}
