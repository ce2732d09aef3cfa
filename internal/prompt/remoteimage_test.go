package prompt_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/plancheck"
)

// withRemoteImages shows one image twice, and one in a tool's result.
var withRemoteImages = withMessages(
	`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://example.com/b.png","detail":"low"}}]},` +
		`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"c","content":[{"type":"image_url","image_url":{"url":"HTTPS:\/\/example.com\/a.png?q=\u0031"}}]},` +
		`{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + pngURL + `"}},{"type":"image_url","image_url":{"url":"https://example.com/b.png"}}]}`)

func TestRemoteImages(t *testing.T) {
	r := mustDecode(t, withRemoteImages)
	const b, a = "https://example.com/b.png", "HTTPS://example.com/a.png?q=1"
	if got := r.RemoteImages(); !slices.Equal(got, []string{b, a}) {
		t.Fatalf("remote images %q", got)
	}
	for url, want := range map[string]string{
		b:      "messages[0].content[1].image_url.url",
		a:      "messages[2].content[0].image_url.url",
		pngURL: "",
	} {
		if got := r.ImageParam(url); got != want {
			t.Errorf("%s is at %q, want %q", url, got, want)
		}
	}
	refusedAt := func(param string) {
		t.Helper()
		_, apiErr := r.Plan(prompt.Options{})
		if apiErr == nil || apiErr.Param != param || apiErr.Code != apierror.CodeInvalidValue {
			t.Errorf("refused by %+v, want %s", apiErr, param)
		}
	}
	refusedAt("messages[0].content[1].image_url.url")
	r.SetImages(map[string]string{"https://example.com/c.png": pngURL})
	refusedAt("messages[0].content[1].image_url.url")
	r.SetImages(map[string]string{b: "data:image/gif;base64,AAAA"})
	if got := r.RemoteImages(); !slices.Equal(got, []string{a}) {
		t.Errorf("remote images %q", got)
	}
	refusedAt("messages[2].content[0].image_url.url")
	r.SetImages(map[string]string{a: "data:image/webp;base64,AAAA", b: pngURL})

	p, apiErr := r.Plan(prompt.Options{})
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	plancheck.Check(t, p)
	for i, want := range map[int]string{
		0: `{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:image/gif;base64,AAAA","detail":"auto"}]}`,
		2: `{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"data:image/webp;base64,AAAA","detail":"high"}]}`,
	} {
		if got := string(p.History[i]); got != want {
			t.Errorf("item %d: %s, want %s", i, got, want)
		}
	}
	want := []codexrpc.UserInput{{Type: "image", URL: pngURL, Detail: "auto"}, {Type: "image", URL: "data:image/gif;base64,AAAA", Detail: "auto"}}
	if !reflect.DeepEqual(p.Turn.Input, want) {
		t.Errorf("input %+v", p.Turn.Input)
	}
}

// TestSetImagesKeepsOneBuffer makes sure that the history's buffer is large
// enough for images that were not in the body.
func TestSetImagesKeepsOneBuffer(t *testing.T) {
	r := mustDecode(t, withMessages(remoteImages(1)+`,{"role":"assistant","content":"x"}`))
	large := "data:image/png;base64," + strings.Repeat("AAAA", 1<<18)
	r.SetImages(map[string]string{"https://example.com/0.png": large})
	size := 0
	for i := range r.Messages {
		size += r.Messages[i].Size
	}
	if size < len(large) {
		t.Errorf("room for %d bytes, not for %d", size, len(large))
	}
}

// TestSetImagesTooLarge: an image that is named many times is as many copies.
func TestSetImagesTooLarge(t *testing.T) {
	const url = "https://example.com/0.png"
	part := `{"type":"image_url","image_url":{"url":"` + url + `"}}`
	large := "data:image/png;base64," + strings.Repeat("AAAA", 1<<18)
	for times, want := range map[int]bool{1: true, prompt.MaxFetchedBytes / len(large): true, prompt.MaxFetchedBytes/len(large) + 1: false, 10_000: false} {
		r := mustDecode(t, withMessages(`{"role":"user","content":[`+strings.Repeat(part+",", times-1)+part+`]}`))
		if got := r.SetImages(map[string]string{url: large}); got != want || (len(r.RemoteImages()) == 0) != want {
			t.Errorf("%d times: %t", times, got)
		}
	}
}

func TestNoRemoteImages(t *testing.T) {
	r := mustDecode(t, withMessages(`{"role":"user","content":"x"}`))
	if got := r.RemoteImages(); got != nil {
		t.Errorf("remote images %q", got)
	}
	r.SetImages(nil)
	if _, apiErr := r.Plan(prompt.Options{}); apiErr != nil {
		t.Error(apiErr)
	}
}
