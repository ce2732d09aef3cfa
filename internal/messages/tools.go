package messages

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// readTools reads functions, the tools that Anthropic has designed and the client runs, and the web search.
func (r *Request) readTools(v wirejson.Value) *field.Error {
	names := make(map[string]bool) // on the stack
	if f := field.Elements(v, prompt.MaxTools, "tools", func(_ int, v wirejson.Value) *field.Error {
		return r.readTool(v, &names)
	}); f != nil {
		return f
	}
	r.addDeferredFunction(names)
	return nil
}

func (r *Request) readTool(v wirejson.Value, names *map[string]bool) *field.Error {
	var kind, name, deferred wirejson.Value
	var typeName string
	f := field.Object(v, wirejson.Into("type", &kind), wirejson.Into("name", &name), wirejson.Into("defer_loading", &deferred))
	f = cmp.Or(f, field.Text(&typeName, kind).In("type"), field.Optional(wirejson.KindBool, deferred).In("defer_loading"))
	if f != nil {
		return f
	}
	if strings.HasPrefix(typeName, webSearch) {
		return r.readWebSearch(v, name)
	}
	t, f := readClientTool(typeName, v)
	f = cmp.Or(f, prompt.ReadToolName(&t.Name, name).In("name"))
	if f = cmp.Or(f, prompt.AddName(names, t.Name, true)); f != nil {
		return f
	}
	if deferred.IsTrue() {
		r.deferred.add(t)
	} else {
		r.Tools = append(r.Tools, t)
	}
	return nil
}

// readClientTool reads a tool that the client runs, except its name, which the caller reads.
func readClientTool(kind string, v wirejson.Value) (prompt.Tool, *field.Error) {
	if kind == "" || kind == "custom" {
		return readFunction(v)
	}
	for _, known := range clientTools {
		if strings.HasPrefix(kind, known.prefix) {
			return prompt.Tool{Description: known.description, Schema: known.schema}, nil
		}
	}
	if strings.HasPrefix(kind, "computer_") {
		return prompt.Tool{}, field.Unsupported("'%.64s' is not supported: models of Codex are not trained for it", kind).In("type")
	}
	return prompt.Tool{}, field.Unsupported("'%.64s' is not supported: Anthropic runs such tools, and Codex has no such one", kind).In("type")
}

// readFunction reads a tool that comes with its schema, except its name, which the caller reads. The member
// strict is checked, but not used: Codex does not pass it on.
func readFunction(v wirejson.Value) (t prompt.Tool, f *field.Error) {
	var description, schema, strict wirejson.Value
	v.Pick(wirejson.Into("description", &description), wirejson.Into("input_schema", &schema), wirejson.Into("strict", &strict))
	f = cmp.Or(
		field.Text(&t.Description, description).In("description"),
		field.Expect(wirejson.KindObject, schema).In("input_schema"),
		prompt.ReadSchema(&t.Schema, schema).In("input_schema"),
		field.Optional(wirejson.KindBool, strict).In("strict"))
	return t, f
}

// clientTool is a tool that Anthropic has designed and the client runs. A request has no
// description and no schema for it; the model gets this description and this schema.
type clientTool struct {
	prefix      string // the beginning of the tool's types; each type ends with a date
	description string
	schema      []byte
}

var clientTools = []clientTool{
	{"bash_", "Run a command in a persistent bash session. Give a command, or set restart to start the session anew.",
		[]byte(`{"type":"object","properties":{"command":{"type":"string","description":"The command to run"},"restart":{"type":"boolean","description":"Start the session anew"}}}`)},
	{"text_editor_", "View, create and edit text files. " +
		"view shows a file, or the lines of it in view_range, or the entries of a directory. create writes file_text. " +
		"str_replace replaces old_str, which must occur exactly once, by new_str. insert puts insert_text behind the line insert_line.",
		[]byte(`{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert"]},"path":{"type":"string"},` +
			`"file_text":{"type":"string"},"old_str":{"type":"string"},"new_str":{"type":"string"},"insert_line":{"type":"integer"},"insert_text":{"type":"string"},` +
			`"view_range":{"type":"array","items":{"type":"integer"}}},"required":["command","path"]}`)},
	{"memory_", "Read and write files below /memories, which are kept between conversations. Look there before you begin a task. " +
		"view, create, str_replace and insert are those of a text editor; delete removes path, and rename moves old_path to new_path.",
		[]byte(`{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"]},"path":{"type":"string"},` +
			`"file_text":{"type":"string"},"old_str":{"type":"string"},"new_str":{"type":"string"},"insert_line":{"type":"integer"},"insert_text":{"type":"string"},` +
			`"view_range":{"type":"array","items":{"type":"integer"}},"old_path":{"type":"string"},"new_path":{"type":"string"}},"required":["command"]}`)},
}

// webSearch is the prefix of the web search's types in requests, and the tool's name in answers.
const webSearch = "web_search"

// readWebSearch reads a web search. The provider runs the searches and decides how many it makes,
// so max_uses has no effect.
func (r *Request) readWebSearch(v, name wirejson.Value) *field.Error {
	if r.Search != nil {
		return field.Invalid("there can be one web search only").In("type")
	}
	var domains, blocked, uses wirejson.Value
	v.Pick(wirejson.Into("allowed_domains", &domains), wirejson.Into("blocked_domains", &blocked), wirejson.Into("max_uses", &uses))
	s, f := prompt.ReadWebSearch(v)
	f = cmp.Or(f, field.NonEmpty(name).In("name"), s.ReadDomains(domains).In("allowed_domains"),
		field.Optional(wirejson.KindArray, blocked).In("blocked_domains"), field.Optional(wirejson.KindNumber, uses).In("max_uses"))
	if f != nil {
		return f
	}
	if blocked.Given() && !blocked.IsEmptyArray() {
		r.Ignore("tools.blocked_domains")
	}
	r.Search, r.searchName = s, name.Text()
	return nil
}

// deferredTools are the tools that a client declares with defer_loading. The model is to know such
// a tool only after the conversation has referred to it (tool_reference or tool_addition).
//
// The tools of a Codex thread are fixed at its start. If each deferred tool had its own function, each
// new reference would need a new thread. So the model calls all deferred tools through one function, and
// a reference becomes a text about the tool.
type deferredTools struct {
	functionName string                 // the name of this one function; empty: there are no deferred tools
	tools        map[string]prompt.Tool // by name
	described    map[string]bool        // the names of the tools that the conversation already describes
}

func (d *deferredTools) add(t prompt.Tool) {
	if d.tools == nil {
		d.tools, d.described = make(map[string]prompt.Tool), make(map[string]bool)
	}
	d.tools[t.Name] = t
}

func (d *deferredTools) has(name string) bool {
	_, ok := d.tools[name]
	return ok
}

// Name, description and schema of the function through which the model calls deferred tools.
const (
	deferredFunction    = "call_tool"
	deferredDescription = "Call a tool that is not among your functions but was described to you by a result in this conversation, such as that of a search for tools. " +
		"Give its name and its arguments, by the schema in its description."
	deferredSchema = `{"type":"object","properties":{"name":{"type":"string","description":"The name of the tool"},` +
		`"arguments":{"type":"object","description":"The arguments of the tool","additionalProperties":true}},"required":["name","arguments"]}`
)

// addDeferredFunction adds the function for the deferred tools to r.Tools, if there are deferred tools.
// names are the names of all tools. The function gets another name.
func (r *Request) addDeferredFunction(names map[string]bool) {
	if r.deferred.tools == nil {
		return
	}
	name := deferredFunction
	for n := 2; names[name]; n++ {
		name = deferredFunction + "_" + strconv.Itoa(n)
	}
	r.deferred.functionName = name
	r.Tools = append(r.Tools, prompt.Tool{Name: name, Description: deferredDescription, Schema: []byte(deferredSchema)})
}

// wrapArguments returns the arguments for calling a deferred tool through the function: an object with
// the name and the input of the tool. An input that wrapUnparsed has made becomes the model's text again.
func (d *deferredTools) wrapArguments(name string, input wirejson.Value) []byte {
	arguments := append(wirejson.AppendString([]byte(`{"name":`), name), `,"arguments":`...)
	if text := unwrapUnparsed(input); len(text) != len(input) { // wrapUnparsed has made the input
		arguments = wirejson.AppendString(arguments, text)
	} else {
		arguments = append(arguments, input...)
	}
	return append(arguments, '}')
}

// unwrapCall reverses wrapArguments: it returns the tool's name and input. If the input is missing, input
// is {}. If the input is a string, input is the text of the string. ok is false if the arguments are not
// an object with a name.
func unwrapCall(arguments string) (name, input string, ok bool) {
	root, _ := wirejson.Parse(wirejson.View(arguments)) // nil, without members, if they are no JSON
	var called, given wirejson.Value
	root.Pick(wirejson.Into("name", &called), wirejson.Into("arguments", &given))
	name, _ = called.AsText()
	switch given.Kind() {
	case wirejson.KindAbsent, wirejson.KindNull:
		input = "{}"
	case wirejson.KindString: // models sometimes write an object as a string
		input = given.Text()
	default:
		input = string(given)
	}
	return name, input, name != ""
}

// describe returns the text that tells the model that it can call a tool. Only the first text about a
// tool has the tool's description and schema, since many results may refer to the same tool.
func (d *deferredTools) describe(name string) string {
	t, ok := d.tools[name]
	if !ok || d.described[name] {
		return "The tool " + name + " can be called now."
	}
	d.described[name] = true
	text := "The tool " + name + " can be called now, with " + d.functionName + "."
	if t.Description != "" {
		text += "\n\n" + t.Description
	}
	return text + "\n\nThe JSON Schema of its arguments:\n" + string(t.Schema)
}
