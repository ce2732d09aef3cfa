package aggregator

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func TestAC02_FinalSnapshot(t *testing.T) {
	a := New(Options{})
	feed(a, 0,
		itemAdded(0, 0, "fc_1", "call_1", "complete"), argumentsDone(1, 0, "fc_1", "complete", `{"a":1}`),
		itemAdded(2, 1, "fc_2", "call_2", "cut"), argumentsDelta(3, 1, "fc_2", `{"a":`),
		itemAdded(4, 2, "fc_3", "call_3", "named"),
		itemStarted("call_4", "rendered", `{"a": [1]}`))
	wantCalls(t, a, 0, "complete", `{"a":1}`, "cut", `{"a":`, "named", "", "rendered", `{"a":[1]}`)
	var flags []bool
	for _, r := range a.Snapshot(0) {
		flags = append(flags, r.Done, r.Provisional)
	}
	if !slices.Equal(flags, []bool{true, false, false, false, false, false, false, true}) {
		t.Errorf("Done and Provisional of each call: %v", flags)
	}
}

func TestAC03_SingleAndMultiForms(t *testing.T) {
	call := raw(object("id", "call_1", "type", "function", "function", raw(object("name", "f", "arguments", `{"a":1}`))))
	messages := map[string]string{
		"tool_calls":    object("role", "assistant", "content", nil, "tool_calls", []any{call}),
		"function_call": object("role", "assistant", "content", nil, "function_call", raw(object("name", "f", "arguments", `{"a":1}`))),
		"both": object("role", "assistant", "tool_calls", []any{call},
			"function_call", raw(object("name", "f", "arguments", `{"a":1}`))),
	}
	for form, message := range messages {
		a := New(Options{})
		a.IngestMessage(0, []byte(message))
		records := a.Snapshot(0)
		if len(records) != 1 {
			t.Fatalf("%s: %d calls", form, len(records))
		}
		multi, err := json.Marshal(records)
		must.OK(t, err)
		if want := `[{"id":"tool_0_0","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]`; string(multi) != want {
			t.Errorf("%s: tool_calls %s", form, multi)
		}
		single, err := json.Marshal(records[0].Function)
		must.OK(t, err)
		if want := `{"name":"f","arguments":"{\"a\":1}"}`; string(single) != want {
			t.Errorf("%s: function_call %s", form, single)
		}
	}
}

func TestAC07_Robustness(t *testing.T) {
	a := New(Options{MaxArgumentBytes: 1 << 10})
	feed(a, 0, itemAdded(0, 0, "fc_1", "call_1", "f"))
	for _, broken := range []string{
		"", "{", `{"type":`, "null", "42", `"text"`, "[]", "\x00", `{"choices":7}`, `{"choices":[7,null]}`,
		`{"tool_calls":[3]}`, `{"tool_calls":{"index":0}}`, `{"function_call":[]}`, `{"item":null}`,
		`{"method":"item/started"}`, `{"method":"item/started","params":[]}`, `{"type":7}`,
		`{"type":"response.output_item.added"}`, `{"type":"response.output_item.added","item":{"type":"function_call","name":{}}}`,
		`{"type":"response.function_call_arguments.delta","item_id":7,"output_index":"x","delta":{}}`,
	} {
		wantNothing(t, a.Ingest(0, []byte(broken)))
		wantNothing(t, a.SynthesizeCalls(0, []byte(broken)))
	}
	feed(a, 0, argumentsDelta(1, 0, "fc_1", `{"never": closed`))
	wantCalls(t, a, 0, "f", `{"never": closed`)

	feed(a, 0, argumentsDelta(2, 0, "fc_1", strings.Repeat("x", 4<<10)), argumentsDelta(3, 0, "fc_1", "y"))
	if r := a.Snapshot(0)[0]; len(r.Function.Arguments) != 1<<10 || !r.Truncated {
		t.Errorf("%d bytes kept, truncated %v", len(r.Function.Arguments), r.Truncated)
	}
	a.ResetTurn()
	feed(a, 0, chatHead(0, "c", "f", strings.Repeat("z", 1<<10)))
	if r := a.Snapshot(0)[0]; len(r.Function.Arguments) != 1<<10 || r.Truncated {
		t.Errorf("ResetTurn gave no room back: %d bytes", len(r.Function.Arguments))
	}
}

// TestAC08_Purity reads the imports of this package and of those that it is made
// of: by these alone there is no way to the outside, to the clock, or to chance.
func TestAC08_Purity(t *testing.T) {
	allowed := []string{
		"bytes", "cmp", "crypto/sha256", "encoding/binary", "encoding/json", "errors", "fmt", "io", "iter", "maps", "math/bits", "slices", "sort",
		"strconv", "strings", "sync", "unicode", "unicode/utf16", "unicode/utf8", "unsafe",
		"github.com/caddy-codex/caddy-codex/aggregator/usetool", "github.com/caddy-codex/caddy-codex/internal/wirejson",
	}
	var files []string
	for _, pattern := range []string{"*.go", "usetool/*.go", "../internal/wirejson/*.go"} {
		some, err := filepath.Glob(pattern)
		if err != nil || len(some) == 0 {
			t.Fatal(pattern, err)
		}
		files = append(files, some...)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		must.OK(t, err)
		for _, imported := range syntax.Imports {
			if path, _ := strconv.Unquote(imported.Path.Value); !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
	// Reading text changes no calls, in a message or out of one.
	a := New(Options{})
	text := "<use_tool><name>f</name></use_tool>"
	a.ExtractBlocks(text)
	a.IngestMessage(0, []byte(object("role", "assistant", "content", text)))
	if a.HasCalls(0) {
		t.Error("text alone made a call")
	}
}

func TestAC14_ArgumentsVerbatim(t *testing.T) {
	for _, arguments := range []string{
		"", " ", "{", `{"a": 1,  "a":2}`, "not JSON", `{"n":1e400}`, "\u2028<&>\\u0041", `{"s":"\ud800"}`, "{}\n\n{}", "\x00",
	} {
		a := New(Options{})
		feed(a, 0, itemAdded(0, 0, "fc_1", "call_1", "streamed"))
		for i, c := range []rune(arguments) {
			feed(a, 0, argumentsDelta(i+1, 0, "fc_1", string(c)))
		}
		a.IngestMessage(0, []byte(object("role", "assistant", "tool_calls", []any{raw(object("id", "m", "function",
			raw(object("name", "message", "arguments", arguments))))})))
		feed(a, 0, rawItem("r", "raw", arguments))
		wantCalls(t, a, 0, "streamed", arguments, "message", arguments, "raw", arguments)
	}
	// A message whose call has no arguments has none.
	a := New(Options{})
	a.IngestMessage(0, []byte(`{"tool_calls":[{"id":"c","function":{"name":"f"}}]}`))
	wantCalls(t, a, 0, "f", "")
}

func TestAC15_SnapshotOrdering(t *testing.T) {
	a := New(Options{})
	feed(a, 0, chatHead(5, "c5", "five", ""), chatHead(2, "c2", "two", ""), chatHead(9, "c9", "nine", ""))
	before := a.Snapshot(0)
	feed(a, 0, chatNext(9, "{}"), chatNext(2, "{}"))
	a.IngestMessage(0, []byte(object("tool_calls", []any{
		raw(`{"id":"c9","function":{"name":"nine","arguments":"{}"}}`),
		raw(`{"id":"c5","function":{"name":"five","arguments":"{}"}}`),
		raw(`{"id":"c1","function":{"name":"one","arguments":"{}"}}`)})))
	wantCalls(t, a, 0, "five", "{}", "two", "{}", "nine", "{}", "one", "{}")
	for i, r := range before {
		if now := a.Snapshot(0)[i]; now.ID != r.ID || now.Function.Name != r.Function.Name {
			t.Errorf("call %d became %+v", i, now)
		}
	}
}

func TestAC18_InputShapes(t *testing.T) {
	for shape, events := range shapes() {
		t.Run(shape, func(t *testing.T) {
			a := New(Options{})
			deltas := feed(a, 0, events...)
			wantCalls(t, a, 0, "f", `{"a":[1,2]}`)
			wantFolded(t, a, 0, deltas)
		})
	}
	t.Run("mixed in one turn", func(t *testing.T) {
		a := New(Options{})
		deltas := feed(a, 0,
			itemAdded(0, 0, "fc_1", "call_1", "f"), argumentsDelta(1, 0, "fc_1", `{"a"`),
			chatHead(1, "call_2", "g", `{"b`), rawItem("call_3", "h", `{"c":3}`),
			argumentsDelta(2, 0, "fc_1", `:1}`), chatNext(1, `":2}`),
			itemStarted("call_1", "f", `{"a":1}`), itemDone(3, 0, "fc_1", "call_1", "f", `{"a":1}`),
			object("function_call", raw(object("name", "i", "arguments", "{"))),
			object("function_call", raw(object("arguments", "}"))))
		message := object("role", "assistant", "tool_calls", []any{
			raw(object("id", "call_2", "function", raw(object("name", "g", "arguments", `{"b":2}`)))),
			raw(object("id", "call_3", "function", raw(object("name", "h", "arguments", `{"c":3}`))))})
		wantNothing(t, a.IngestMessage(0, []byte(message)))
		wantCalls(t, a, 0, "f", `{"a":1}`, "g", `{"b":2}`, "h", `{"c":3}`, "i", "{}")
		wantFolded(t, a, 0, deltas)
	})
}

func TestAC19_ImmutableOutputs(t *testing.T) {
	a := New(Options{})
	event := []byte(chatHead(0, "call_1", "f", `{"a":1`))
	r := a.Ingest(0, event)
	for i := range event {
		event[i] = 'X' // the caller's buffer is the caller's
	}
	old := r.Deltas[0]
	snapshot := a.Snapshot(0)
	r.Deltas[0] = Delta{}
	snapshot[0] = Record{}
	_ = append(snapshot[:0], Record{ID: "other"})
	feed(a, 0, chatNext(0, "}"))
	a.IngestMessage(0, []byte(`{"tool_calls":[{"id":"call_1","function":{"name":"f","arguments":"[replaced]"}}]}`))
	if old.Arguments != `{"a":1` || old.Fragment != `{"a":1` || old.Name != "f" || old.BackendID != "call_1" {
		t.Errorf("an old delta changed: %+v", old)
	}
	wantCalls(t, a, 0, "f", "[replaced]")

	canon := usetool.Canon()
	canon[0].Params[0].Name = "changed"
	if usetool.Canon()[0].Params[0].Name == "changed" {
		t.Error("the canon can be changed from outside")
	}
	blocks := a.ExtractBlocks("<use_tool><name>f</name></use_tool>")
	blocks[0].Name = "changed"
	if again := a.ExtractBlocks("<use_tool><name>f</name></use_tool>"); again[0].Name != "f" {
		t.Error("blocks are shared")
	}
}
