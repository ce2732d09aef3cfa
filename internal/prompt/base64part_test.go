package prompt

import (
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

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
