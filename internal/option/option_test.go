package option

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// block has an option of each kind.
type block struct {
	Max   int            `json:"max,omitempty" option:"<n>" default:"64"`
	Least *int           `json:"least,omitempty" option:"<n>"`
	Wait  caddy.Duration `json:"wait,omitempty" option:"max [<duration>]" default:"0"`
	Size  int64          `json:"size,omitempty" option:"<size>|off"`
	Pause caddy.Duration `json:"pause,omitempty" option:"<duration>"`
	Home  string         `json:"home,omitempty" option:"<name>"`
	Note  string         `json:"note,omitempty" option:"<text>"`
	Usage string         `json:"usage,omitempty" option:"own|all" default:"own"`
	Page  bool           `json:"page,omitempty" option:"on|off"`
	Embedded
	Other string `json:"other,omitempty"` // no option
}

// Embedded is a part of block.
type Embedded struct {
	Force bool `json:"force,omitempty" option:"force"`
}

// parse reads the text of a block, with the custom option path, which repeats.
func parse(text string) (b block, paths []string, err error) {
	d := caddyfile.NewTestDispenser("module {\n" + text + "\n}")
	d.Next()
	err = ParseBlock(d, &b, map[string]Custom{"path": {Repeats: true, Parse: func(d *caddyfile.Dispenser) error {
		paths = append(paths, d.RemainingArgs()...)
		return nil
	}}})
	return b, paths, err
}

func TestParseBlock(t *testing.T) {
	b, paths, err := parse("max 5 3s\nleast 0\nsize off\npause 1m\nhome x\nnote \"\"\nusage all\npage on\nforce force\npath a\npath b c")
	must.OK(t, err)
	least := *b.Least
	b.Least = nil
	want := block{Max: 5, Wait: caddy.Duration(3e9), Size: -1, Pause: caddy.Duration(60e9), Home: "x", Usage: "all", Page: true, Embedded: Embedded{true}}
	if b != want || least != 0 || strings.Join(paths, " ") != "a b c" {
		t.Errorf("%+v, least %d, paths %q", b, least, paths)
	}
}

func TestParseBlockErrors(t *testing.T) {
	for text, want := range map[string]string{
		"max":                   "wrong argument count",
		"max 0":                 `max: "0" is not a number above zero`,
		"max 5 3s 1":            "wrong argument count",
		"max 5 x":               `max: "x" is not a duration from 0 up`,
		"least -1":              `least: "-1" is not a number from 0 up`,
		"size 1":                "",
		"size -1":               `size: "-1" is not a size above zero`,
		"size 99EB":             `size: "99EB" is not a size above zero`,
		"pause off":             `pause: "off" is not a duration above zero`,
		`home ""`:               "home: must not be empty",
		"usage mine":            `usage: "mine" must be one of own, all`,
		"page yes":              `page: "yes" must be one of on, off`,
		"max 5\nmax 6":          "max is given twice",
		"wait 5s":               `unknown option "wait"`,
		"other x":               `unknown option "other"`,
		"usge all":              `unknown option "usge"; did you mean usage?`,
		"key=secret":            `unknown option "key"; a value follows after a space, without =`,
		"response_store memory": "response_store is called store now",
	} {
		_, _, err := parse(text)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", text, err, want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%q: the value is shown: %v", text, err)
		}
	}
}

// TestComplete checks values as JSON may have them.
func TestComplete(t *testing.T) {
	var b block
	if err := Complete(&b); err != nil || b.Max != 64 || b.Usage != "own" || b.Least != nil || b.Size != 0 {
		t.Errorf("%+v, %v", b, err)
	}
	for want, b := range map[string]block{
		"max: must be a number above zero":            {Max: -1},
		"least: must be a number from 0 up":           {Least: new(-1)},
		"pause: must be a duration above zero":        {Pause: -1},
		`usage: "mine" must be one of own, all`:       {Usage: "mine"},
		"":                                            {Size: -5, Home: "any", Note: "any"},
		"wait: must be a duration from 0 up, such as": {Wait: -1},
	} {
		if err := Complete(&b); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"usge", "usage", 1}, {"usage", "usage", 0}, {"abc", "xyz", 3}, {"kitten", "sitting", 3}, {"abcde", "ab", 3}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("from %q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestAbsolutePath(t *testing.T) {
	t.Setenv("FOLDER", "/srv")
	here, err := filepath.Abs(".")
	must.OK(t, err)
	for path, want := range map[string]string{"": "", "/x/../y": "/y", "a": filepath.Join(here, "a"), "{env.FOLDER}/b": "/srv/b"} {
		if got, err := AbsolutePath(caddy.NewReplacer(), path); got != want || err != nil {
			t.Errorf("%q: %q (%v), want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"{env.NOT_THERE}/b", "{unknown}"} {
		if got, err := AbsolutePath(caddy.NewReplacer(), path); err == nil {
			t.Errorf("%q: %q", path, got)
		}
	}
}
