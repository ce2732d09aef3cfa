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

// TestCheckURLOfJPG: image/jpg means image/jpeg, which the model is given.
func TestCheckURLOfJPG(t *testing.T) {
	for url, want := range map[string]string{
		`"data:image/jpg;base64,/9j/AAAA"`:             `"data:image/jpeg;base64,/9j/AAAA"`,
		`"DATA:image\/JPG;base64,/9j/AAAA"`:            `"data:image/jpeg;base64,/9j/AAAA"`,
		`"data:image/jpeg;base64,/9j/AAAA"`:            `"data:image/jpeg;base64,/9j/AAAA"`,
		`"data:image/jpg;base64,AA*A"`:                 "",
		`"data:image/jpgx;base64,/9j/AAAA"`:            "",
		`"data:image/jpg"`:                             "",
		`"data:image/png;base64,/9j/AAAA"`:             `"data:image/png;base64,/9j/AAAA"`, // the type may be wrong
		`"data:image/png;base64,UklGRgAAAABXRUJQVlA4"`: `"data:image/png;base64,UklGRgAAAABXRUJQVlA4"`,
		`"data:image/png;base64,R0lGODlh"`:             `"data:image/png;base64,R0lGODlh"`,
		`"data:image/png;base64,AAAA"`:                 "", // no image
		`"data:image/png;base64,Qk0AAA=="`:             "", // BMP
		`"data:image/png;base64,PHN2Zz48L3N2Zz4="`:     "",
	} {
		p := Part{URL: wirejson.Value(url)}
		if f := p.checkURL(); (f == nil) != (want != "") || f == nil && string(p.URL) != want {
			t.Errorf("%s: %s %v", url, p.URL, f)
		}
	}
}

// TestBase64Part: an image whose data are a member of their own has the URL that it would have
// in OpenAI's form, and its data are not copied before that.
func TestBase64Part(t *testing.T) {
	const data = `iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ`
	for media, want := range map[string]string{
		`"image/png"`: "data:image/png;base64," + data, `"IMAGE\/png"`: "data:image/png;base64," + data,
		`"image/jpg"`: "data:image/jpeg;base64," + data, `"image/tiff"`: "", `"image/png;x"`: "", `7`: "",
	} {
		body := wirejson.Value(`"` + data + `"`)
		p, f := Base64Part(wirejson.Value(media), body)
		if f != nil || want == "" {
			if f == nil || want != "" || f.APIError().Param != "media_type" {
				t.Errorf("%s: %+v", media, f)
			}
			continue
		}
		if &p.URL[0] != &body[0] || p.imageURL() != want || string(p.appendURL(nil)) != `"`+want+`"` {
			t.Errorf("%s: %s, %s", media, p.imageURL(), p.appendURL(nil))
		}
	}
	for _, data := range []string{`"AAAA"`, `"*"`, `""`, `null`} {
		if _, f := Base64Part(wirejson.Value(`"image/png"`), wirejson.Value(data)); f == nil || f.APIError().Param != "data" {
			t.Errorf("%s: %+v", data, f)
		}
	}
	escaped, f := Base64Part(wirejson.Value(`"image/png"`), wirejson.Value(`"\u0069`+data[1:]+`"`))
	if want := "data:image/png;base64," + data; f != nil || escaped.imageURL() != want || wirejson.Value(escaped.appendURL(nil)).Text() != want {
		t.Errorf("%s %+v", escaped.appendURL(nil), f)
	}
}

// TestBase64Image: data without a media type tell it themselves.
func TestBase64Image(t *testing.T) {
	for data, want := range map[string]string{
		`"iVBORw0KGgo="`: "data:image/png;base64,iVBORw0KGgo=", `"/9j/4AAQ"`: "data:image/jpeg;base64,/9j/4AAQ", `"R0lGODlhAQABAIAA"`: "data:image/gif;base64,R0lGODlhAQABAIAA",
		`"AAAA"`: "", `"a b="`: "", `""`: "", `7`: "",
	} {
		p, f := Base64Image(wirejson.Value(data))
		if (f == nil) != (want != "") || f == nil && p.imageURL() != want {
			t.Errorf("%s: %s, %+v", data, p.imageURL(), f)
		}
	}
}

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
