package images

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// sizePattern matches the size of a picture: a width and a height, such as 1024x1536.
var sizePattern = regexp.MustCompile(`^([1-9]\d{1,4})x([1-9]\d{1,4})$`)

// readSize reads the size. The prompt asks for it. It is also listed as ignored: pictures may differ.
func (r *Request) readSize(v wirejson.Value) *field.Error {
	f := field.Text(&r.size, v)
	switch {
	case f != nil:
		return f
	case r.size == "auto" || r.size == "":
		r.size = ""
		return nil
	case !sizePattern.MatchString(r.size):
		return field.Invalid("must be auto, or a width and a height as in 1024x1536")
	}
	r.Ignore("size")
	return nil
}

func (r *Request) readBackground(v wirejson.Value) *field.Error {
	f := field.OneOf(&r.background, []string{"auto", "transparent", "opaque"}, v)
	if r.background == "auto" {
		r.background = ""
	}
	return f
}

// sizeInWords returns the size as a sentence of the prompt: Codex's tool has no argument for it.
func (r *Request) sizeInWords() string {
	if r.size == "" {
		return ""
	}
	width, height, _ := strings.Cut(r.size, "x")
	shape := "square"
	switch { // compares texts: the numbers have no leading zeros, so the longer text is the larger number
	case len(width) != len(height) && len(width) > len(height), len(width) == len(height) && width > height:
		shape = "landscape"
	case width != height:
		shape = "portrait"
	}
	return fmt.Sprintf("The picture is %s, %s by %s pixels.", shape, width, height)
}
