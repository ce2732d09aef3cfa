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

// maxToolName is the most bytes of a tool's name in Codex. OpenAI allows 64, but longer ones work.
const maxToolName = 128

// MaxTools is how many tools a request may have. OpenAI documents 128; Codex was seen to offer 512.
const MaxTools = 1024

// maxToolBytes is how many bytes the tools of a request may have together. For each byte, Codex
// needs some fifty bytes of memory and half a microsecond.
const maxToolBytes = 4 << 20

// ToolBytes returns how many bytes the tools have: their names, descriptions and schemas.
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

// ReadFunction reads OpenAI's FunctionObject. strict is checked, but not used: Codex does not pass it on.
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

// ReadSchema reads the parameters of a tool: [EmptySchema] if they are absent or null.
func ReadSchema(schema *json.RawMessage, v wirejson.Value) *field.Error {
	f := field.Optional(wirejson.KindObject, v)
	if *schema = EmptySchema; f == nil && v.Given() {
		*schema = v.Compact()
	}
	return f
}

// CustomSchema is the schema of the function that replaces a custom tool: Codex gets only functions.
var CustomSchema = json.RawMessage(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`)

// ReadCustomTool reads a custom tool: its name, description and format. A grammar goes into the
// description for the model, since Codex cannot enforce it. If flat is true, the grammar's definition is a
// member of the format, as in the Responses API. Otherwise it is in the format's object grammar.
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

// readGrammar stores the grammar of a custom tool's format in *text, or nothing if any input is allowed.
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

// CustomArguments returns the arguments of a custom tool's function for an input. Both are JSON strings.
func CustomArguments(input wirejson.Value) wirejson.Value {
	return wirejson.AppendString(nil, slices.Concat[[]byte]([]byte(`{"input":`), input, []byte{'}'}))
}

// CustomInput returns the member `input` in the arguments of a custom tool's function. It may be a string.
// In a call from a block in the text, it may also be a JSON object or list, which stays as written. All
// other arguments are returned unchanged, so that no text is lost.
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

// parseCustomInput returns the string `input` of a custom tool's arguments, or false if there is none.
func parseCustomInput(arguments string) (input string, ok bool) {
	var call struct {
		Input *string `json:"input"`
	}
	if err := json.Unmarshal([]byte(arguments), &call); err != nil || call.Input == nil {
		return "", false
	}
	return *call.Input, true
}

// WrapCustomInput makes the call's arguments the input of a custom tool's function, unless they
// already are an object with a string `input`.
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

// ReadCalledName reads the name of a tool that a model has called. In a textual call, this may be any
// text. Characters that Codex does not accept become '_', and a name that is too long is cut.
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

// AddName adds v to a map under the name of a tool. A name that the map has already is an error.
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

// reservedNames are tools' names that Codex does not offer for clients, as tests with 0.169 showed.
var reservedNames = map[string]bool{
	// Codex rejects a tool with this name.
	"mcp": true,
	// Codex accepts these tools, but does not offer them, or answers their calls itself.
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

// reservedPrefix begins Codex's names for MCP servers' tools, also if clients pass such tools on.
const reservedPrefix = "mcp__"

// renamePrefix begins the new name of a tool whose own name is reserved.
const renamePrefix = "client_"

func isReserved(name string) bool {
	return reservedNames[name] || strings.HasPrefix(name, reservedPrefix)
}

// ToolNames translates tools' names. The same tools in the same order always get the same names. The zero
// value is for no tools.
type ToolNames struct {
	clientNames map[string]string // the client's names of the offered tools, by Codex's names
	codexNames  map[string]string // Codex's names of the renamed tools, by the client's names
}

// newToolNames gives new names to all tools with reserved names, also to those that are not offered: the
// history may have calls of them.
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

// ClientName returns the client's name of Codex's tool. It reports false if the tool is not offered.
func (n ToolNames) ClientName(codexName string) (string, bool) {
	name, ok := n.clientNames[codexName]
	return name, ok
}

// Codex returns Codex's name of a client's tool. The history may have calls of tools that are no longer
// declared. If the name of such a tool is reserved, it gets renamePrefix, too.
func (n ToolNames) Codex(name string) string {
	if n.codexNames[name] == "" && isReserved(name) {
		return CutName(renamePrefix+name, "")
	}
	return cmp.Or(n.codexNames[name], name)
}

// freeName puts renamePrefix before a name, and a number after it if the result is taken. *next, which all
// tools share, is the first number to try: else many names that are equal after a cut would try all
// numbers.
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
