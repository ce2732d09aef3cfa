package prompt

import (
	"testing"

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
