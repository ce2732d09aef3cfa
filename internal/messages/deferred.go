package messages

import (
	"strconv"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

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
