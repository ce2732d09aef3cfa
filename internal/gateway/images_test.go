package gateway

import (
	"context"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/chat"
)

// largeImages are large, at every URL.
type largeImages struct{}

func (largeImages) Fetch(_ context.Context, urls []string) (map[string]string, error) {
	return map[string]string{urls[0]: "data:image/png;base64," + strings.Repeat("AAAA", 1<<20)}, nil
}

// TestImagesTooLarge: a short body that names one image often is refused.
func TestImagesTooLarge(t *testing.T) {
	g := New(nil, Options{Images: largeImages{}})
	chat, apiErr := chat.Decode([]byte(conversing(`{"role":"user","content":[` + repeat(1000, `{"type":"image_url","image_url":{"url":"https://h/i"}}`) + `]}`)))
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	if apiErr := g.fetchImages(t.Context(), &chatRequest{Request: *chat}); apiErr == nil || apiErr.Code != "invalid_image_url" || apiErr.Param != "messages[0].content[0].image_url.url" {
		t.Errorf("%+v", apiErr)
	}
}
