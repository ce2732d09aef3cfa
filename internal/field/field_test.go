package field

import (
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// TestPaths: an error gets its path while it is returned from level to level.
func TestPaths(t *testing.T) {
	for want, f := range map[string]*Error{
		"n":                                Missing().In("n"),
		"messages[2].content":              Missing().In("content").At(2).In("messages"),
		"a[0][1]":                          Missing().At(1).At(0).In("a"),
		"input[3].content[0].image_url.id": Missing().In("id").In("image_url").At(0).In("content").At(3).In("input"),
	} {
		e := f.APIError()
		if e.Param != want || e.Message != want+": is required." || e.Code != apierror.CodeMissingParameter || e.Status != 400 {
			t.Errorf("%+v, want %s", e, want)
		}
	}
	if (*Error)(nil).In("a").At(1) != nil {
		t.Error("nothing became an error")
	}
}

func TestReaders(t *testing.T) {
	value := func(text string) wirejson.Value { return wirejson.Value(text) }
	var limit int
	var name string
	for what, c := range map[string]struct {
		err  *Error
		code apierror.Code // empty: no error
	}{
		"kind":             {Expect(wirejson.KindString, value(`"x"`)), ""},
		"another kind":     {Expect(wirejson.KindString, value(`1`)), apierror.CodeInvalidType},
		"none":             {Expect(wirejson.KindString, nil), apierror.CodeMissingParameter},
		"optional, null":   {Optional(wirejson.KindString, value(`null`)), ""},
		"optional, number": {Optional(wirejson.KindString, value(`1`)), apierror.CodeInvalidType},
		"empty":            {NonEmpty(value(`""`)), apierror.CodeInvalidValue},
		"limit":            {Limit(&limit, value(`7.0`)), ""},
		"limit of 0":       {Limit(new(int), value(`0`)), apierror.CodeInvalidValue},
		"half a token":     {Limit(new(int), value(`1.5`)), apierror.CodeInvalidValue},
		"one of":           {OneOf(&name, []string{"a", "b"}, value(`"b"`)), ""},
		"none of":          {OneOf(new(string), []string{"a", "b"}, value(`"c"`)), apierror.CodeInvalidValue},
	} {
		switch {
		case c.err == nil && c.code != "":
			t.Errorf("%s: no error", what)
		case c.err != nil && c.err.Code != c.code:
			t.Errorf("%s: %+v", what, c.err)
		}
	}
	if limit != 7 || name != "b" {
		t.Errorf("limit %d, name %q", limit, name)
	}
	if f := Limit(&limit, value(`1e300`)); f != nil || limit != 1<<31-1 {
		t.Errorf("%d, %+v", limit, f)
	}
}

// TestPathOf finds each value of a body by its memory, also where equal ones are elsewhere.
func TestPathOf(t *testing.T) {
	body := []byte(` {"a": [1, "x", {"b": "x", "c": {"d": [["x"]]}}, []], "a.b": "x", "e": {}, "é": null} `)
	root, err := wirejson.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	var walk func(v wirejson.Value, path func(*Error) *Error)
	walk = func(v wirejson.Value, path func(*Error) *Error) {
		want := path(new(Error)).Path
		if got := PathOf(root, v); got != want {
			t.Errorf("%s is at %q, want %q", v, got, want)
		}
		found[want]++
		switch v.Kind() {
		case wirejson.KindArray:
			for i, element := range v.Elements() {
				walk(element, func(f *Error) *Error { return path(f.At(i)) })
			}
		case wirejson.KindObject:
			for name, member := range v.Members() {
				walk(member, func(f *Error) *Error { return path(f.In(string(name))) })
			}
		}
	}
	walk(root, func(f *Error) *Error { return f })
	if len(found) != 14 || found["a[2].c.d[0][0]"] != 1 {
		t.Errorf("found %v", found)
	}
	for _, v := range []wirejson.Value{nil, wirejson.Value(`"x"`), wirejson.Value(body)[:0], wirejson.Value(body), root[1:1]} {
		if got := PathOf(root, v); got != "" {
			t.Errorf("%q is at %q", v, got)
		}
	}
	if got := PathOf(nil, root); got != "" {
		t.Errorf("no body has %q", got)
	}
}
