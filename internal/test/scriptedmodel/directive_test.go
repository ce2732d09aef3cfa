package scriptedmodel

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func TestSplitDirectives(t *testing.T) {
	cases := []struct {
		prompt string
		want   []directive
		plain  string
	}{
		{"", nil, ""},
		{"hello", nil, "hello"},
		{"I say: hello", nil, "I say: hello"},
		{"hang on", nil, "hang on"},
		{"then what?", nil, "then what?"},
		{"say:hello", []directive{{"say:", "hello"}}, ""},
		{"  \n say: hello \n", []directive{{"say:", "hello"}}, ""},
		{"say:a;b; c", []directive{{"say:", "a;b; c"}}, ""},
		{"say:a; say:b", []directive{{"say:", "a"}, {"say:", "b"}}, ""},
		{"say:a;say:b;", []directive{{"say:", "a"}, {"say:", "b"}}, ""},
		{"say:a\nb\n\nc", []directive{{"say:", "a\nb\n\nc"}}, ""},
		{"say:a\n  reason:b", []directive{{"say:", "a"}, {"reason:", "b"}}, ""},
		{"say:a; hang", []directive{{"say:", "a"}, {"hang", ""}}, ""},
		{"say:a; hang on", []directive{{"say:", "a; hang on"}}, ""},
		{"cutoff ; say:a", []directive{{"cutoff", ""}, {"say:", "a"}}, ""},
		{"say:what does it say: this", []directive{{"say:", "what does it say: this"}}, ""},
		{"tool:1 f {\"a\":\n1}; then; say:b", []directive{{"tool:", "1 f {\"a\":\n1}"}, {"then", ""}, {"say:", "b"}}, ""},
		{"chunk=7 delay=5ms; say:a", []directive{{"chunk=", "7"}, {"delay=", "5ms"}, {"say:", "a"}}, ""},
		{"chunk=7", []directive{{"chunk=", "7"}}, ""},
		{"chunk=7; what is\nthis; say:?", []directive{{"chunk=", "7"}}, "what is\nthis; say:?"},
		{"usage:1,2,3,4\nsay:a", []directive{{"usage:", "1,2,3,4"}, {"say:", "a"}}, ""},
		{"say:a; verbatim: b;say:c\nhang\n", []directive{{"say:", "a"}, {"verbatim:", " b;say:c\nhang\n"}}, ""},
	}
	for _, c := range cases {
		got, plain := splitDirectives(c.prompt)
		if !reflect.DeepEqual(got, c.want) || plain != c.plain {
			t.Errorf("%q: %q and %q, want %q and %q", c.prompt, got, plain, c.want, c.plain)
		}
	}
}

func TestScripts(t *testing.T) {
	cases := []struct {
		prompt string
		want   Script
	}{
		{"chunk=7; delay=5ms; firstdelay=1s; usage:1,2,3,4,5; say:a", Script{
			Output: []Output{Say("a")}, Chunk: 7, Delay: 5 * time.Millisecond, FirstDelay: time.Second, Usage: &Usage{1, 2, 3, 4, 5}}},
		{"price=0.25; say:a", Script{Output: []Output{Say("a")}, Price: "0.25"}},
		{"chunk=all; say:a", Script{Output: []Output{Say("a")}, Chunk: ChunkAll}},
		{`tool:2 f {"n":%d,"m":"%d"}`, Script{Output: []Output{Call{Name: "f", Arguments: `{"n":1,"m":"1"}`}, Call{Name: "f", Arguments: `{"n":2,"m":"2"}`}}}},
		{"callid=c1; tool:2 f {}; usage:1,2,3,4", Script{Output: []Output{Call{Name: "f", Arguments: "{}", ID: "c1"}, Call{Name: "f", Arguments: "{}", ID: "c1"}}, Usage: &Usage{1, 2, 3, 4, 0}}},
		{"tool:f not JSON", Script{Output: []Output{Call{Name: "f", Arguments: "not JSON"}}}},
		{"tool:2 f", Script{Output: []Output{Call{Name: "f", Arguments: "{}"}, Call{Name: "f", Arguments: "{}"}}}},
		{`usetool:2 f {"b":"x %d","a":[1]}`, Script{Output: []Output{Say(
			"<use_tool>\n<name>f</name>\n<b>x 1</b>\n<a>[1]</a>\n</use_tool>\n<use_tool>\n<name>f</name>\n<b>x 2</b>\n<a>[1]</a>\n</use_tool>")}}},
		{"usetool:f", Script{Output: []Output{Say("<use_tool>\n<name>f</name>\n</use_tool>")}}},
		{"limit:3600", Script{End: UsageLimit{ResetsIn: time.Hour}}},
		{"limit:60 pro", Script{End: UsageLimit{ResetsIn: time.Minute, Plan: "pro"}}},
		{"limit:0", Script{End: UsageLimit{}}},
		{"limit:", Script{End: UsageLimit{}}},
		{"http:503 20", Script{End: HTTPError{Status: 503, RetryAfter: 20 * time.Second}}},
		{"fail:x y z", Script{End: Failed{"x", "y z"}}},
		{"say:a; hang", Script{Output: []Output{Say("a")}, End: Hang{}}},
		{"cutoff", Script{Output: []Output{Say("This answer stops in the middle of")}, End: Cut{}}},
		{"incomplete:odd", Script{Output: []Output{Say("This answer stops in the middle of")}, End: Incomplete{"odd"}}},
	}
	s := New(Options{})
	defer s.Close()
	for _, c := range cases {
		if got := s.choose(decoded(t, body(c.prompt, nil))); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %+v, want %+v", c.prompt, got, c.want)
		}
	}
}

func decoded(t *testing.T, body string) Request {
	t.Helper()
	req, err := decode(nil, []byte(body), Delivery{})
	must.OK(t, err)
	return req
}

func TestBadDirectives(t *testing.T) {
	s := start(t)
	for _, prompt := range []string{
		"chunk=0", "chunk=-1", "chunk=x", "chunk=", "delay=5", "delay=-1s", "delay=24h", "firstdelay=x",
		"usage:1,2,3", "usage:1,2,3,4,5,6", "usage:1,2,3,x", "usage:1,2,3,-4", "usage:",
		"tool:", "tool:0 f", "tool:1001 f", "tool:3", "usetool:f [1]", "usetool:f {", `usetool:f {"a":`, `usetool:f {"a":1`,
		"http:", "http:99", "http:200", "http:418 x", "http:499", "http:503 0", "http:503 x",
		"limit:-1", "limit:soon", "limit:1 two words",
		"fail:", "incomplete:", "incomplete:a b", "cutoff; hang", "http:500; fail:x", "hang\nsomething else", "cutoff\nx",
		"then", "say:a; then; say:b", "tool:f; then\nx", "tool:f; then; then", "say:a; chunk=7 hello", "hang; chunk=7 hello",
	} {
		e := s.refused(body(prompt, nil), 400)
		text, _ := e.at("error", "message").(string)
		if !strings.Contains(text, "directive") {
			t.Errorf("%q: the message is %q", prompt, text)
		}
	}
}

// FuzzPrompt checks that every prompt has an answer that can be sent.
func FuzzPrompt(f *testing.F) {
	f.Add("say:a; tool:2 f {\"a\":%d}; then; hang")
	f.Add("chunk=3 usetool:f {\"\":[]}; verbatim:\x00")
	f.Add("What is the weather in “Köln”?")
	s := New(Options{})
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, prompt string) {
		if len(prompt) > 1<<16 {
			return
		}
		script := s.script(decoded(t, body(prompt, nil)))
		if script.Chunk == 0 || script.End == nil && script.Output == nil && !strings.ContainsAny(prompt, "=:") {
			t.Errorf("%q: %+v", prompt, script)
		}
		for _, out := range script.Output {
			if text, ok := out.(Say); ok {
				if got := joined(string(text), script.Chunk); got != string(text) {
					t.Errorf("%q came in the pieces of %q", text, got)
				}
			}
		}
	})
}

func joined(text string, size int) string {
	var b strings.Builder
	for piece := range chunks(text, size) {
		b.WriteString(piece)
	}
	return b.String()
}
