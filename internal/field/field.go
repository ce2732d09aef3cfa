// Package field reads the fields of a body. An [Error] has a field's path and what is wrong with it.
package field

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Error says what is wrong with a value of a request. Its path is built only while the error is
// returned from level to level. So paths cost nothing in valid requests.
type Error struct {
	Path    string // path of the field from the value that is being read, for example "[1].image_url"
	Problem string // what is wrong; the message is "PATH: PROBLEM."
	Code    apierror.Code
}

// WrongType returns the error for a value v that is absent, or of another kind than want.
func WrongType(want wirejson.Kind, v wirejson.Value) *Error {
	if v.Kind() == wirejson.KindAbsent {
		return Missing()
	}
	return &Error{Problem: fmt.Sprintf("must be %s, not %s", want, v.Kind()), Code: apierror.CodeInvalidType}
}

// Invalid returns the error for a value that is not allowed.
func Invalid(format string, args ...any) *Error {
	return &Error{Problem: fmt.Sprintf(format, args...), Code: apierror.CodeInvalidValue}
}

// Unsupported returns the error for a value that Codex does not support.
func Unsupported(format string, args ...any) *Error {
	return &Error{Problem: fmt.Sprintf(format, args...), Code: apierror.CodeUnsupportedParameter}
}

// NotFound returns the error for a value that names an unknown thing.
func NotFound(format string, args ...any) *Error {
	return &Error{Problem: fmt.Sprintf(format, args...), Code: apierror.CodeNotFound}
}

// Refuse returns an error if v is given (neither absent nor null), since Codex does not support the
// field. why is the end of the error's message.
func Refuse(v wirejson.Value, why string) *Error {
	if !v.Given() {
		return nil
	}
	return Unsupported("is not supported: %s", why)
}

// Refused returns the reader of a field that is always refused, see [Refuse].
func Refused[R any](why string) func(R, wirejson.Value) *Error {
	return func(_ R, v wirejson.Value) *Error { return Refuse(v, why) }
}

// Missing returns the error for a value that is absent.
func Missing() *Error { return &Error{Problem: "is required", Code: apierror.CodeMissingParameter} }

// In puts the name of a member before the path of the error. An empty name changes nothing.
func (f *Error) In(name string) *Error {
	if f == nil || name == "" {
		return f
	}
	if f.Path != "" && !strings.HasPrefix(f.Path, "[") {
		name += "."
	}
	f.Path = name + f.Path
	return f
}

// At puts the index of an element before the path of the error.
func (f *Error) At(i int) *Error {
	if f == nil {
		return nil
	}
	return f.In(fmt.Sprintf("[%d]", i))
}

// PathOf returns the path of a value in a body, such as messages[2].content[0].image_url.url. It finds
// the value by its memory: v must share the memory of the body. If v does not, the path is empty.
func PathOf(body, v wirejson.Value) string {
	if !body.Holds(v) || body.IsSame(v) {
		return ""
	}
	f := new(Error)
	if body.Kind() == wirejson.KindArray {
		for i, element := range body.Elements() {
			if element.Holds(v) {
				f.Path = PathOf(element, v)
				return f.At(i).Path
			}
		}
		return ""
	}
	for name, member := range body.Members() {
		if member.Holds(v) {
			f.Path = PathOf(member, v)
			return f.In(string(name)).Path
		}
	}
	return ""
}

// APIError returns f as an error of the API with the status 400, or nil if f is nil.
func (f *Error) APIError() *apierror.Error {
	if f == nil {
		return nil
	}
	apiErr := apierror.InvalidRequest(f.Path, f.Path+": "+f.Problem+".")
	apiErr.Code = f.Code
	return apiErr
}

// Expect returns an error if the value is absent or of another kind than want.
func Expect(want wirejson.Kind, v wirejson.Value) *Error {
	if v.Kind() != want {
		return WrongType(want, v)
	}
	return nil
}

// Optional returns an error if the value is of another kind than want. It may be absent or null.
func Optional(want wirejson.Kind, v wirejson.Value) *Error {
	if v.Given() {
		return Expect(want, v)
	}
	return nil
}

// Limit reads an optional integer of at least 1, such as a limit of tokens. If the value is absent
// or null, the result is 0. If it is larger than math.MaxInt32, the result is math.MaxInt32.
func Limit(limit *int, v wirejson.Value) *Error {
	*limit = 0
	if f := Optional(wirejson.KindNumber, v); f != nil || !v.Given() {
		return f
	}
	// The error is ignored: if the number is out of range, n is an infinity.
	n, _ := strconv.ParseFloat(string(v), 64)
	if n != math.Trunc(n) || n < 1 {
		return Invalid("must be an integer of at least 1")
	}
	*limit = int(min(n, math.MaxInt32))
	return nil
}

// OneOf reads an optional string, which must be one of allowed. If the value is absent or null,
// *name becomes empty.
func OneOf(name *string, allowed []string, v wirejson.Value) *Error {
	if f := Text(name, v); f != nil || !v.Given() || slices.Contains(allowed, *name) {
		return f
	}
	return Invalid("must be one of %s", strings.Join(allowed, ", "))
}

// String reads a string. A value that is absent or null is an error.
func String(text *string, v wirejson.Value) *Error {
	f := Expect(wirejson.KindString, v)
	if f == nil {
		*text = v.Text()
	}
	return f
}

// Text reads an optional string. If the value is absent or null, *text becomes empty.
func Text(text *string, v wirejson.Value) *Error {
	if *text = ""; !v.Given() {
		return nil
	}
	return String(text, v)
}

// Bool reads an optional boolean. If the value is absent or null, *b becomes false.
func Bool(b *bool, v wirejson.Value) *Error {
	*b = v.IsTrue()
	return Optional(wirejson.KindBool, v)
}

// NonEmpty returns an error if the value is not a string, or is the empty string.
func NonEmpty(v wirejson.Value) *Error {
	if f := Expect(wirejson.KindString, v); f != nil {
		return f
	}
	if len(v.RawText()) == 0 {
		return Invalid("must not be empty")
	}
	return nil
}

// Body parses a request's body, which must be a JSON object, reads it into r with read, and returns r.
func Body[R any](body []byte, r *R, read func(*R, wirejson.Value) *Error) (*R, *apierror.Error) {
	root, syntaxErr := wirejson.Parse(body)
	if syntaxErr == nil && root.Kind() == wirejson.KindObject {
		return r, read(r, root).APIError()
	}
	problem := "it is " + string(root.Kind()) + ", not an object"
	if syntaxErr != nil {
		problem = syntaxErr.Error()
	}
	apiErr := apierror.InvalidRequest("", "The request body could not be read as a JSON object: "+problem+".")
	apiErr.Code = apierror.CodeInvalidJSON
	return nil, apiErr
}

// Object reads the wanted members of an object, see [wirejson.Value.Pick].
func Object(v wirejson.Value, wanted ...wirejson.Member) *Error {
	if f := Expect(wirejson.KindObject, v); f != nil {
		return f
	}
	v.Pick(wanted...)
	return nil
}

// Typed is [Object] for an object with a member "type", which must be a string. kind gets this member.
func Typed(kind *wirejson.Value, v wirejson.Value, wanted ...wirejson.Member) *Error {
	if f := Expect(wirejson.KindObject, v); f != nil {
		return f
	}
	v.PickTyped(kind, wanted...)
	return Expect(wirejson.KindString, *kind).In("type")
}

// Readers has the functions that read the members of an object into an R, by the names of the members.
// A nil function stands for a member that has no effect and may have any value. If an object has a member
// twice, the function is called twice, and the last value has to count: so functions reset what they set.
type Readers[R any] = map[string]func(R, wirejson.Value) *Error

// Members reads the members of an object into r, in the order of the object. It skips members
// without a reader. The object may be absent or null.
func Members[R any](object wirejson.Value, r R, readers Readers[R]) *Error {
	return MembersKnowing(nil, object, r, readers)
}

// MembersKnowing does the same as [Members], for a caller that has already read one member. known is the
// value of this member. The value is passed to its reader, but not parsed again, see
// [wirejson.Value.MembersKnowing].
func MembersKnowing[R any](known, object wirejson.Value, r R, readers Readers[R]) *Error {
	if f := Optional(wirejson.KindObject, object); f != nil || !object.Given() {
		return f
	}
	for name, v := range object.MembersKnowing(known) {
		if read := readers[string(name)]; read != nil {
			if f := read(r, v); f != nil {
				return f.In(string(name))
			}
		}
	}
	return nil
}

// Elements calls read for each element of an array, which may be absent or null. An array of more
// than limit elements is an error. plural is the name of the elements in the message of that error.
func Elements(v wirejson.Value, limit int, plural string, read func(i int, v wirejson.Value) *Error) *Error {
	if f := Optional(wirejson.KindArray, v); f != nil || !v.Given() {
		return f
	}
	for i, v := range v.Elements() {
		if i == limit {
			return Invalid("must hold at most %d %s", limit, plural)
		}
		if f := read(i, v); f != nil {
			return f.At(i)
		}
	}
	return nil
}
