package prompt

import (
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// TestCheckURLOfJPG: image/jpg means image/jpeg, which the model is given.
func TestCheckURLOfJPG(t *testing.T) {
	for url, want := range map[string]string{
		`"data:image/jpg;base64,AAAA"`:  `"data:image/jpeg;base64,AAAA"`,
		`"DATA:image\/JPG;base64,AAAA"`: `"data:image/jpeg;base64,AAAA"`,
		`"data:image/jpeg;base64,AAAA"`: `"data:image/jpeg;base64,AAAA"`,
		`"data:image/jpg;base64,AA*A"`:  "",
		`"data:image/jpgx;base64,AAAA"`: "",
		`"data:image/jpg"`:              "",
	} {
		p := Part{URL: jsontext.Value(url)}
		if f := p.CheckURL(); (f == nil) != (want != "") || f == nil && string(p.URL) != want {
			t.Errorf("%s: %s %v", url, p.URL, f)
		}
	}
}
