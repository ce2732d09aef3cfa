package field

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// Error is what is wrong with a value of a request. Its path is put together on
// the way out of the value, so that a request without faults pays nothing for it.
type Error struct {
	Path    string // from where the fault is now, for example "[1].image_url"
	Problem string // reads well behind "PATH: "
	Code    apierror.Code
}

func WrongType(want jsontext.Kind, v jsontext.Value) *Error {
	if v.Kind() == jsontext.KindAbsent {
		return Missing()
	}
	return &Error{Problem: fmt.Sprintf("must be %s, not %s", want, v.Kind()), Code: apierror.CodeInvalidType}
}

func Invalid(format string, args ...any) *Error {
	return &Error{Problem: fmt.Sprintf(format, args...), Code: apierror.CodeInvalidValue}
}

func Unsupported(format string, args ...any) *Error {
	return &Error{Problem: fmt.Sprintf(format, args...), Code: apierror.CodeUnsupportedParameter}
}

func NotFound(format string, args ...any) *Error {
	return &Error{Problem: fmt.Sprintf(format, args...), Code: apierror.CodeNotFound}
}

func Missing() *Error {
	return &Error{Problem: "is required", Code: apierror.CodeMissingParameter}
}

// In says that the fault lies in the member name of an object.
func (f *Error) In(name string) *Error {
	if f == nil {
		return nil
	}
	if f.Path != "" && !strings.HasPrefix(f.Path, "[") {
		name += "."
	}
	f.Path = name + f.Path
	return f
}

// At says that the fault lies in the element i of an array.
func (f *Error) At(i int) *Error {
	return f.In(fmt.Sprintf("[%d]", i))
}

// APIError makes the fault of a whole request an answer.
func (f *Error) APIError() *apierror.Error {
	return &apierror.Error{
		Status:  http.StatusBadRequest,
		Type:    apierror.TypeInvalidRequest,
		Message: f.Path + ": " + f.Problem + ".",
		Param:   f.Path,
		Code:    f.Code,
	}
}

// Expect is the fault of a value that is of another kind than want, or absent.
func Expect(want jsontext.Kind, v jsontext.Value) *Error {
	if v.Kind() != want {
		return WrongType(want, v)
	}
	return nil
}

// Optional is expect for a value that may be absent or null.
func Optional(want jsontext.Kind, v jsontext.Value) *Error {
	if v.Given() {
		return Expect(want, v)
	}
	return nil
}
