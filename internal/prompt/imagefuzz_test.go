package prompt

import (
	"encoding/base64"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// dataURL is the form of the data URLs that are accepted, written a second time.
var dataURL = regexp.MustCompile(`(?is)^data:image/(?:png|jpeg|jpg|gif|webp);base64,(.*)$`)

// FuzzImageURL: a data URL is accepted if it has an image in base64, as encoding/base64 and
// net/http read it, and stays one of a type that exists.
func FuzzImageURL(f *testing.F) {
	image := base64.StdEncoding.EncodeToString([]byte("GIF89a gif"))
	for _, url := range []string{
		"data:image/gif;base64," + image, "DATA:image/JPG;Base64," + image + "=", "data:image/png;base64,====", "data:image/png;base64," + image[:7],
		"data:image/jpg,x;base64," + image, "data:image/gif;base64,\n" + image, "data:;base64," + image, "data:image/gif;charset=x;base64," + image,
	} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		if !utf8.ValidString(url) || !strings.HasPrefix(strings.ToLower(url), "data:") {
			return
		}
		want := false
		if match := dataURL.FindStringSubmatch(url); match != nil && !strings.ContainsAny(match[1], "\r\n") {
			content, err := base64.StdEncoding.DecodeString(match[1])
			want = err == nil && len(content) > 0 && slices.Contains(ImageTypes, http.DetectContentType(content[:min(len(content), 18)]))
		}
		p := Part{URL: wirejson.AppendString(nil, url)}
		fault := p.checkURL()
		if fault != nil && strings.Contains(fault.Problem, "size can be read") || want && p.pixels > MaxPixels {
			want = false // TestImageSize and FuzzImageSize look at that
		}
		if (fault == nil) != want {
			t.Fatalf("%q: %v", url, fault)
		}
		if after := p.URL.Text(); want && (p.remote || !dataURL.MatchString(after) || strings.HasPrefix(strings.ToLower(after), "data:image/jpg")) {
			t.Fatalf("%q became %q", url, after)
		}
	})
}
