package openai

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// readTokenLimit reads a limit of tokens; none is 0.
func readTokenLimit(limit *int, v jsontext.Value) (f *fault) {
	*limit = 0
	if v.Given() {
		*limit, f = readCount(v)
	}
	return f
}

// readCount reads an integer from 1. What is beyond any use becomes the largest
// that all machines have.
func readCount(v jsontext.Value) (int, *fault) {
	if f := expect(jsontext.KindNumber, v); f != nil {
		return 0, f
	}
	// A number that is out of range comes out as an infinity.
	n, _ := strconv.ParseFloat(string(v), 64)
	if n != math.Trunc(n) || n < 1 {
		return 0, wrongValue("must be an integer of at least 1")
	}
	return int(min(n, math.MaxInt32)), nil
}

// readOneOf reads a name that must be one of those known; none is empty.
func readOneOf(name *string, known []string, v jsontext.Value) *fault {
	*name = ""
	if !v.Given() {
		return nil
	}
	if f := expect(jsontext.KindString, v); f != nil {
		return f
	}
	if *name = v.Text(); !slices.Contains(known, *name) {
		return wrongValue("must be one of %s", strings.Join(known, ", "))
	}
	return nil
}

// expectFilled is the fault of a value that is not a string with a text in it.
func expectFilled(v jsontext.Value) *fault {
	if f := expect(jsontext.KindString, v); f != nil {
		return f
	}
	if len(v.RawText()) == 0 {
		return wrongValue("must not be empty")
	}
	return nil
}

// readRoot checks a body and returns the object that it is.
func readRoot(body []byte) (jsontext.Value, *Error) {
	root, syntax := jsontext.Parse(body)
	if syntax != nil {
		return nil, notJSON(syntax.Error())
	}
	if root.Kind() != jsontext.KindObject {
		return nil, notJSON("it is " + string(root.Kind()) + ", not an object")
	}
	return root, nil
}

func notJSON(problem string) *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: typeInvalidRequest, Code: CodeInvalidJSON,
		Message: "The request body could not be read as a JSON object: " + problem + ".",
	}
}
