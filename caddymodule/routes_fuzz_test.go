package caddymodule

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// FuzzRoute: a path leads to the one route whose pattern it is, and the parts of the path
// are those that stand for * there. Any other path of the API leads to a route as well,
// without a second try.
func FuzzRoute(f *testing.F) {
	for _, path := range []string{
		"/v1/responses/resp_1/input_items", "/v1/responses/input_tokens", "/v1/responses//cancel", "/v1/models/a/b", "/v1/conversations/c/items/i",
		"/v1//chat/completions/", "/v1/v1/models", "/v1/", "/v1/openai/deployments/x/chat/completions", "/healthz", "/v1/responses/*",
	} {
		f.Add(path)
	}
	patterns := map[string]*regexp.Regexp{"/v1/models/*": regexp.MustCompile(`(?s)^/v1/models/(.+)$`)}
	for pattern := range routes {
		patterns[pattern] = regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, "([^/]+)") + "$")
	}
	f.Fuzz(func(t *testing.T, path string) {
		wanted := map[string][]string{}
		for pattern, form := range patterns {
			if match := form.FindStringSubmatch(path); match != nil {
				wanted[pattern] = match[1:]
			}
		}
		if args := wanted[path]; args != nil { // a whole path comes before a pattern
			wanted = map[string][]string{path: args}
		}
		found, ok := exactRouteOf(path)
		if len(wanted) > 1 || ok != (len(wanted) == 1) {
			t.Fatalf("%q is %t, of %v", path, ok, wanted)
		}
		for pattern, args := range wanted {
			want := routes[pattern]
			if pattern == "/v1/models/*" {
				want = modelRoute
			}
			if found.counts != want.counts || !slices.Equal(found.methods, want.methods) || !slices.Equal(found.args, args) {
				t.Fatalf("%q leads to %+v, with %q", path, found, args)
			}
		}
		if meant, ok := misspeltRouteOf(path); ok && (meant.serve == nil || slices.Contains(meant.args, "")) {
			t.Fatalf("%q leads to %+v", path, meant)
		}
		if meant, ok := apiRouteOf(path); ok && meant.serve == nil || strings.HasPrefix(path, "/v1/") && !ok {
			t.Fatalf("%q leads nowhere", path)
		}
	})
}
