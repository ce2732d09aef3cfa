package prompt

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// maxToolName is the maximum length of a tool's name in Codex, in bytes. OpenAI allows 64, but
// longer names work.
const maxToolName = 128

// MaxTools is how many tools a request may declare. OpenAI documents 128. Codex was seen
// to offer 512.
const MaxTools = 1024

// maxToolBytes is how many bytes the tools of a request may have together. For each byte, Codex
// needs some fifty bytes of memory and half a microsecond.
const maxToolBytes = 4 << 20

// ToolBytes returns how many bytes the tools of the conversation have together: their names,
// descriptions and schemas.
func (c *Conversation) ToolBytes() (n int64) {
	for i := range c.Tools {
		t := &c.Tools[i]
		n += int64(len(t.Name) + len(t.Description) + len(t.Schema))
	}
	return n
}

// CheckTools returns an error if the tools of the conversation are too large together.
func (c *Conversation) CheckTools() *field.Error {
	if n := c.ToolBytes(); n > maxToolBytes {
		return field.Invalid("have %d bytes together, and a request may have %d: leave some out, or shorten their schemas", n, maxToolBytes).In("tools")
	}
	return nil
}

// EmptySchema is the schema of a tool that declares no parameters.
var EmptySchema = json.RawMessage(`{"type":"object","properties":{}}`)

// Tool is a function that the client offers (ChatCompletionTool in OpenAI's API).
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// ReadFunction reads a FunctionObject of OpenAI's API. It checks the member strict, but the member
// has no effect, since Codex does not pass it on.
func ReadFunction(v wirejson.Value) (t Tool, f *field.Error) {
	var name, description, parameters, strict wirejson.Value
	f = field.Object(v, wirejson.Into("name", &name), wirejson.Into("description", &description),
		wirejson.Into("parameters", &parameters), wirejson.Into("strict", &strict))
	f = cmp.Or(f,
		ReadToolName(&t.Name, name).In("name"),
		field.Text(&t.Description, description).In("description"),
		field.Optional(wirejson.KindBool, strict).In("strict"),
		ReadSchema(&t.Schema, parameters).In("parameters"))
	return t, f
}

// ReadSchema reads the parameters of a tool. If they are absent or null, the schema is
// [EmptySchema].
func ReadSchema(schema *json.RawMessage, v wirejson.Value) *field.Error {
	f := field.Optional(wirejson.KindObject, v)
	if *schema = EmptySchema; f == nil && v.Given() {
		*schema = v.Compact()
	}
	return f
}

// CustomSchema is the schema of the function that replaces a custom tool. A custom tool accepts any
// text, but for Codex and the model every tool is a function.
var CustomSchema = json.RawMessage(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`)

// ReadCustomTool reads a custom tool: its name, its description and its format. The grammar in the
// format goes into the description for the model, since Codex cannot enforce it. If flat is true,
// the definition of the grammar is a member of the format, as in the Responses API. Otherwise it is
// a member of the object grammar in the format.
func ReadCustomTool(v wirejson.Value, flat bool) (t Tool, _ *field.Error) {
	var name, description, format wirejson.Value
	f := field.Object(v, wirejson.Into("name", &name), wirejson.Into("description", &description), wirejson.Into("format", &format))
	var grammar string
	f = cmp.Or(f,
		ReadToolName(&t.Name, name).In("name"),
		field.Text(&t.Description, description).In("description"),
		readGrammar(&grammar, format, flat).In("format"))
	if description.Given() {
		t.Description += "\n\n"
	}
	t.Description += "The text goes into the argument `input`, as it is."
	if grammar != "" {
		t.Description += "\n\nIt must follow this grammar:\n" + grammar
	}
	t.Schema = CustomSchema
	return t, f
}

// readGrammar reads the grammar in the format of a custom tool. It stores the grammar in *text, and
// stores nothing if the format allows any input.
func readGrammar(text *string, v wirejson.Value, flat bool) *field.Error {
	if !v.Given() {
		return nil
	}
	var kind, grammar, definition wirejson.Value
	f := field.Object(v, wirejson.Into("type", &kind), wirejson.Into("grammar", &grammar), wirejson.Into("definition", &definition))
	switch {
	case f != nil || kind.Is("text"):
		return f
	case !kind.Is("grammar"):
		return field.Invalid("must be text or grammar").In("type")
	case flat:
		return field.String(text, definition).In("definition")
	}
	definition = nil
	f = field.Object(grammar, wirejson.Into("definition", &definition))
	return cmp.Or(f, field.String(text, definition).In("definition")).In("grammar")
}

// CustomArguments returns the arguments of a custom tool's function for an input. The result and
// the input are JSON strings.
func CustomArguments(input wirejson.Value) wirejson.Value {
	return wirejson.AppendString(nil, slices.Concat[[]byte]([]byte(`{"input":`), input, []byte{'}'}))
}

// CustomInput returns the input in the arguments of a custom tool's function. An input that is a JSON
// object or list, as a block in the text may have it, stays as it was written. If the arguments are
// not an object with one of these as its `input`, CustomInput returns them unchanged, so that no text
// is lost.
func CustomInput(arguments string) string {
	if input, ok := parseCustomInput(arguments); ok {
		return input
	}
	var call map[string]json.RawMessage
	if err := json.Unmarshal([]byte(arguments), &call); err != nil || len(call) != 1 {
		return arguments
	}
	if input := string(call["input"]); strings.HasPrefix(input, "{") || strings.HasPrefix(input, "[") {
		return input
	}
	return arguments
}

// parseCustomInput returns the input in the arguments of a custom tool's function. ok is false if
// the arguments are not an object with a string `input`.
func parseCustomInput(arguments string) (input string, ok bool) {
	var call struct {
		Input *string `json:"input"`
	}
	if err := json.Unmarshal([]byte(arguments), &call); err != nil || call.Input == nil {
		return "", false
	}
	return *call.Input, true
}

// WrapCustomInput makes the call's arguments those of a custom tool's function: the old arguments
// become the input. If the arguments already are an object with a string `input`, WrapCustomInput
// changes nothing.
func (c *Call) WrapCustomInput() {
	if _, ok := parseCustomInput(c.Arguments.Text()); !ok {
		c.Arguments = CustomArguments(c.Arguments)
	}
}

// ReadToolName reads the name of a tool. It accepts the characters that OpenAI and Codex accept.
func ReadToolName(name *string, v wirejson.Value) *field.Error {
	if f := field.NonEmpty(v); f != nil {
		return f
	}
	if *name = v.Text(); !isToolName(*name) {
		return field.Invalid("must consist of letters, digits, '_' and '-', at most %d of them", maxToolName)
	}
	return nil
}

// ReadCalledName reads the name of a tool that a model has called. In a textual call, the model may
// write any name, and the client sends it back. ReadCalledName replaces the characters that Codex
// does not accept by '_', and cuts a name that is too long.
func ReadCalledName(name *string, v wirejson.Value) *field.Error {
	if f := field.NonEmpty(v); f != nil {
		return f
	}
	if *name = v.Text(); !isToolName(*name) {
		*name = CutName(strings.Map(func(r rune) rune {
			if r < utf8.RuneSelf && isToolName(string(r)) {
				return r
			}
			return '_'
		}, *name), "")
	}
	return nil
}

// AddName adds what belongs to the name of a tool to a map. A name that is there already is an error.
func AddName[V any](byName *map[string]V, name string, v V) *field.Error {
	if _, twice := (*byName)[name]; twice {
		return field.Invalid("the name %q is used twice", name).In("name")
	}
	if *byName == nil {
		*byName = make(map[string]V)
	}
	(*byName)[name] = v
	return nil
}

func isToolName(s string) bool {
	for _, b := range []byte(s) {
		if (b < '0' || b > '9') && (b|0x20 < 'a' || b|0x20 > 'z') && b != '_' && b != '-' {
			return false
		}
	}
	return s != "" && len(s) <= maxToolName
}

// reservedNames are the names under which Codex does not offer a client's tool to the model. They
// were found by a test with Codex 0.169 and each of its models.
var reservedNames = map[string]bool{
	// Codex rejects a tool with this name.
	"mcp": true,
	// Codex accepts tools with these names, but does not offer them to the model, or answers their
	// calls itself.
	"exec_command":  true,
	"shell_command": true,
	"apply_patch":   true,
	// Codex's own tools for models that run their tools from a script.
	"exec":                        true,
	"wait":                        true,
	"list_mcp_resources":          true,
	"list_mcp_resource_templates": true,
	"read_mcp_resource":           true,
	// Codex's own tools. They can be switched off, but not in older releases of Codex.
	"request_user_input":       true,
	"request_user_input_async": true,
	"update_plan":              true,
	"skills":                   true,
}

// reservedPrefix begins Codex's names for the tools of MCP servers. Clients that pass on such tools
// use this prefix, too.
const reservedPrefix = "mcp__"

// renamePrefix begins the new name of a tool whose own name is reserved.
const renamePrefix = "client_"

func isReserved(name string) bool {
	return reservedNames[name] || strings.HasPrefix(name, reservedPrefix)
}

// ToolNames translates the names of a request's tools. The same tools in the same order get the
// same names in each request. The zero value has no tools.
type ToolNames struct {
	clientNames map[string]string // the client's names of the offered tools, by Codex's names
	codexNames  map[string]string // Codex's names of the renamed tools, by the client's names
}

func newToolNames(tools, offered []Tool) ToolNames {
	var names ToolNames
	if len(offered) > 0 {
		names.clientNames = make(map[string]string, len(offered))
	}
	var taken map[string]bool
	next := 2
	for _, t := range tools {
		if !isReserved(t.Name) {
			continue
		}
		if taken == nil {
			taken = make(map[string]bool, len(tools))
			for _, t := range tools {
				taken[t.Name] = true
			}
			names.codexNames = map[string]string{}
		}
		name := freeName(t.Name, taken, &next)
		taken[name] = true
		names.codexNames[t.Name] = name
	}
	for _, t := range offered {
		names.clientNames[names.Codex(t.Name)] = t.Name
	}
	return names
}

// ClientName returns the client's name of the tool that Codex calls codexName. It reports false if
// the request offers no such tool.
func (n ToolNames) ClientName(codexName string) (string, bool) {
	name, ok := n.clientNames[codexName]
	return name, ok
}

// Codex returns Codex's name of a client's tool. The request need not declare the tool: the history
// may have calls of a tool that the client no longer offers. If such a tool has a reserved name,
// its name gets renamePrefix.
func (n ToolNames) Codex(name string) string {
	if n.codexNames[name] == "" && isReserved(name) {
		return CutName(renamePrefix+name, "")
	}
	return cmp.Or(n.codexNames[name], name)
}

// freeName puts renamePrefix before a name, and a number after it if the result is taken. *next is
// the number to try first. All tools of a request share *next: if many names are equal after they
// were cut, freeName would otherwise try all numbers again for each of them.
func freeName(name string, taken map[string]bool, next *int) string {
	free := CutName(renamePrefix+name, "")
	for ; taken[free]; *next++ {
		free = CutName(renamePrefix+name, "_"+strconv.Itoa(*next))
	}
	return free
}

// CutName joins name and suffix. If the result would exceed maxToolName, it first shortens name.
func CutName(name, suffix string) string {
	return name[:min(len(name), maxToolName-len(suffix))] + suffix
}
