package openai

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// fault is what is wrong with a value of a request. Its path is put together on
// the way out of the value, so that a request without faults pays nothing for it.
type fault struct {
	path    string // from where the fault is now, for example "[1].image_url"
	problem string // reads well behind "PATH: "
	code    Code
}

func wrongType(want jsontext.Kind, v jsontext.Value) *fault {
	if v.Kind() == jsontext.KindAbsent {
		return missing()
	}
	return &fault{problem: fmt.Sprintf("must be %s, not %s", want, v.Kind()), code: CodeInvalidType}
}

func wrongValue(format string, args ...any) *fault {
	return &fault{problem: fmt.Sprintf(format, args...), code: CodeInvalidValue}
}

func unsupported(format string, args ...any) *fault {
	return &fault{problem: fmt.Sprintf(format, args...), code: CodeUnsupportedParameter}
}

func notFound(format string, args ...any) *fault {
	return &fault{problem: fmt.Sprintf(format, args...), code: CodeNotFound}
}

func missing() *fault {
	return &fault{problem: "is required", code: CodeMissingParameter}
}

// in says that the fault lies in the member name of an object.
func (f *fault) in(name string) *fault {
	if f == nil {
		return nil
	}
	if f.path != "" && !strings.HasPrefix(f.path, "[") {
		name += "."
	}
	f.path = name + f.path
	return f
}

// at says that the fault lies in the element i of an array.
func (f *fault) at(i int) *fault {
	return f.in(fmt.Sprintf("[%d]", i))
}

// toError makes the fault of a whole request an answer.
func (f *fault) toError() *Error {
	return &Error{
		Status:  http.StatusBadRequest,
		Type:    typeInvalidRequest,
		Message: f.path + ": " + f.problem + ".",
		Param:   f.path,
		Code:    f.code,
	}
}

// expect is the fault of a value that is of another kind than want, or absent.
func expect(want jsontext.Kind, v jsontext.Value) *fault {
	if v.Kind() != want {
		return wrongType(want, v)
	}
	return nil
}

// optional is expect for a value that may be absent or null.
func optional(want jsontext.Kind, v jsontext.Value) *fault {
	if v.Given() {
		return expect(want, v)
	}
	return nil
}
