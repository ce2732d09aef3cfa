package gateway

import (
	"context"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/imagefetch"
)

// largeImages are large, at every URL.
type largeImages struct{}

func (largeImages) Fetch(_ context.Context, urls []string, grow func(int64) bool) (map[string]string, error) {
	if !grow(4 << 20) {
		return nil, imagefetch.ErrNoMemory
	}
	return map[string]string{urls[0]: "data:image/png;base64," + strings.Repeat("AAAA", 1<<20)}, nil
}

// TestImagesTooLarge: a short body that names one image often is refused, and so are images that
// have no room among the bodies.
func TestImagesTooLarge(t *testing.T) {
	g := New(nil, Options{Images: largeImages{}, MaxBody: 1 << 20, MaxBodyMemory: 8 << 20})
	chat, apiErr := chat.Decode([]byte(conversing(`{"role":"user","content":[` + repeat(1000, `{"type":"image_url","image_url":{"url":"https://h/i"}}`) + `]}`)))
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	x := &exchange{ctx: t.Context(), body: g.bodies.Claim("a")}
	if apiErr := g.fetchImages(x, &chatRequest{Request: *chat}); apiErr == nil || apiErr.Code != "invalid_image_url" || apiErr.Param != "messages[0].content[0].image_url.url" {
		t.Errorf("%+v", apiErr)
	}
	if apiErr := g.fetchImages(x, &chatRequest{Request: *chat}); apiErr == nil || apiErr.Code != "codex_body_memory" || g.bodies.Held() != 4<<20 {
		t.Errorf("without memory: %+v, %d bytes", apiErr, g.bodies.Held())
	}
}
