// Package field reads the fields of a request's body. An [Error] has the path of the
// field and what is wrong with it.
package field

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// Error says what is wrong with a value of a request. The path grows while the error is
// returned from level to level, so that valid requests pay nothing for it.
type Error struct {
	Path    string // from the value that is read, for example "[1].image_url"
	Problem string // follows "PATH: " in the message
	Code    apierror.Code
}

// WrongType returns the error of a value of another kind than want, or of none.
func WrongType(want jsontext.Kind, v jsontext.Value) *Error {
	if v.Kind() == jsontext.KindAbsent {
		return Missing()
	}
	return &Error{Problem: fmt.Sprintf("must be %s, not %s", want, v.Kind()), Code: apierror.CodeInvalidType}
}

// Invalid returns the error of a value that is not allowed.
func Invalid(format string, args ...any) *Error {
	return &Error{Problem: fmt.Sprintf(format, args...), Code: apierror.CodeInvalidValue}
}

// Unsupported returns the error of a value for which Codex has nothing.
func Unsupported(format string, args ...any) *Error {
	return &Error{Problem: fmt.Sprintf(format, args...), Code: apierror.CodeUnsupportedParameter}
}

// NotFound returns the error of a value that names something unknown.
func NotFound(format string, args ...any) *Error {
	return &Error{Problem: fmt.Sprintf(format, args...), Code: apierror.CodeNotFound}
}

// Missing returns the error of a value that is absent.
func Missing() *Error { return &Error{Problem: "is required", Code: apierror.CodeMissingParameter} }

// In puts the name of a member before the path.
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

// At puts the index of an element before the path.
func (f *Error) At(i int) *Error { return f.In(fmt.Sprintf("[%d]", i)) }

// APIError returns the 400 with this error, or nil if there is none.
func (f *Error) APIError() *apierror.Error {
	if f == nil {
		return nil
	}
	return &apierror.Error{
		Status:  http.StatusBadRequest,
		Type:    apierror.TypeInvalidRequest,
		Message: f.Path + ": " + f.Problem + ".",
		Param:   f.Path,
		Code:    f.Code,
	}
}

// Expect returns an error if the value is absent or of another kind than want.
func Expect(want jsontext.Kind, v jsontext.Value) *Error {
	if v.Kind() != want {
		return WrongType(want, v)
	}
	return nil
}

// Optional returns an error if the value is of another kind than want. It may be absent
// or null.
func Optional(want jsontext.Kind, v jsontext.Value) *Error {
	if v.Given() {
		return Expect(want, v)
	}
	return nil
}
