package field

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// Limit reads a limit of tokens. An absent one or null is 0.
func Limit(limit *int, v jsontext.Value) (f *Error) {
	*limit = 0
	if v.Given() {
		*limit, f = Count(v)
	}
	return f
}

// Count reads an integer of at least 1. Larger ones than math.MaxInt32 become that.
func Count(v jsontext.Value) (int, *Error) {
	if f := Expect(jsontext.KindNumber, v); f != nil {
		return 0, f
	}
	// A number out of range is parsed as an infinity.
	n, _ := strconv.ParseFloat(string(v), 64)
	if n != math.Trunc(n) || n < 1 {
		return 0, Invalid("must be an integer of at least 1")
	}
	return int(min(n, math.MaxInt32)), nil
}

// OneOf reads a string that must be one of known. An absent one or null is empty.
func OneOf(name *string, known []string, v jsontext.Value) *Error {
	if f := Text(name, v); f != nil || !v.Given() || slices.Contains(known, *name) {
		return f
	}
	return Invalid("must be one of %s", strings.Join(known, ", "))
}

// Text reads a string. An absent one or null is empty.
func Text(text *string, v jsontext.Value) *Error {
	*text = ""
	f := Optional(jsontext.KindString, v)
	if f == nil && v.Given() {
		*text = v.Text()
	}
	return f
}

// Bool reads a boolean. An absent one or null is false.
func Bool(b *bool, v jsontext.Value) *Error {
	*b = v.IsTrue()
	return Optional(jsontext.KindBool, v)
}

// NonEmpty returns an error if the value is no string or an empty one.
func NonEmpty(v jsontext.Value) *Error {
	if f := Expect(jsontext.KindString, v); f != nil {
		return f
	}
	if len(v.RawText()) == 0 {
		return Invalid("must not be empty")
	}
	return nil
}

// Body parses a request's body and returns the object that it is.
func Body(body []byte) (jsontext.Value, *apierror.Error) {
	root, syntax := jsontext.Parse(body)
	if syntax != nil {
		return nil, notJSON(syntax.Error())
	}
	if root.Kind() != jsontext.KindObject {
		return nil, notJSON("it is " + string(root.Kind()) + ", not an object")
	}
	return root, nil
}

func notJSON(problem string) *apierror.Error {
	return &apierror.Error{
		Status: http.StatusBadRequest, Type: apierror.TypeInvalidRequest, Code: apierror.CodeInvalidJSON,
		Message: "The request body could not be read as a JSON object: " + problem + ".",
	}
}
