package gateway

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"net/http"
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
	body := g.bodies.Claim("a")
	if apiErr := g.fetchImages(t.Context(), body, chat.Asked()); apiErr == nil || apiErr.Code != "invalid_image_url" || apiErr.Param != "messages[0].content[0].image_url.url" {
		t.Errorf("%+v", apiErr)
	}
	if apiErr := g.fetchImages(t.Context(), body, chat.Asked()); apiErr == nil || apiErr.Code != "codex_body_memory" || g.bodies.Held() != 4<<20 {
		t.Errorf("without memory: %+v, %d bytes", apiErr, g.bodies.Held())
	}
}

// largePNG is the beginning of a picture with sides of so many pixels, 33 bytes.
func largePNG(side uint64) []byte {
	header := binary.BigEndian.AppendUint64([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), side<<32|side)
	header = append(header, 8, 6, 0, 0, 0)
	return binary.BigEndian.AppendUint32(header, crc32.ChecksumIEEE(header[12:]))
}

// TestPixelsTogether: a refusal of images that are too large together names the field that has
// them, in each API.
func TestPixelsTogether(t *testing.T) {
	data := base64.StdEncoding.EncodeToString(largePNG(8000))
	url := "data:image/png;base64," + data
	g := newGateway(talkative(t, 1), Options{MaxConcurrent: 1})
	for _, c := range []struct {
		field, body, path string
	}{
		{"messages", conversing(`{"role":"user","content":[` + repeat(17, `{"type":"image_url","image_url":{"url":"`+url+`"}}`) + `]}`), chatPath},
		{"messages", conversing(`{"role":"user","content":[` + repeat(17, `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`+data+`"}}`) + `]}`), "/v1/messages"},
		{"input", `{"model":"m","input":[{"role":"user","content":[` + repeat(17, `{"type":"input_image","image_url":"`+url+`"}`) + `]}]}`, responsesPath},
	} {
		w := post(g, c.path, c.body)
		if text := w.Body.String(); w.Code != http.StatusBadRequest || !strings.Contains(text, `"`+c.field+": has images of 1088000000 pixels together") {
			t.Errorf("%d %s", w.Code, text)
		}
	}
}
