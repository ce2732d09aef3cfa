package usetool

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// ErrArguments is for arguments that are no JSON object: cut off, malformed, or of another type.
var ErrArguments = errors.New("usetool: the arguments are not a JSON object")

// Param is one argument of a call.
type Param struct {
	Name  string // the canonical name
	Value string // raw JSON, spelled as in the call
}

// Shape turns the arguments of a call into the parameters of its tool.
//   - For a tool in [Canon], the parameters have canonical names and the canonical order. Unknown
//     arguments are dropped. A value under the canonical name takes precedence over a value under
//     the alias.
//   - For any other tool, all arguments stay as they are, in their order.
//
// For every tool: the last value of a name counts, missing parameters are not added, even if required, and
// arguments that are empty or null mean that there are no parameters. The error wraps [ErrArguments].
func Shape(name, arguments string) ([]Param, error) {
	given, err := readArguments(arguments)
	if err != nil {
		return nil, fmt.Errorf("shaping the arguments of %q: %w", name, err)
	}
	params, known := renameAliases(name, given)
	if !known {
		return given, nil
	}
	var shaped []Param
	for _, p := range params {
		if at := paramAt(given, p.Name); at >= 0 {
			shaped = append(shaped, given[at])
		}
	}
	return shaped, nil
}

// readArguments lists the members of arguments in order, each name once.
func readArguments(arguments string) ([]Param, error) {
	arguments = strings.TrimSpace(arguments)
	if arguments == "" || arguments == "null" {
		return nil, nil
	}
	object := wirejson.Value(wirejson.View(arguments))
	if object.Kind() != wirejson.KindObject || !json.Valid(object) {
		return nil, ErrArguments
	}
	var params []Param
	place := make(map[string]int)
	for key, value := range object.Members() {
		name := string(key)
		at, twice := place[name]
		if !twice {
			at = len(params)
			place[name] = at
			params = append(params, Param{Name: name})
		}
		params[at].Value = wirejson.Text(value)
	}
	return params, nil
}

// ActionKey identifies the action of a call; see [Action].
type ActionKey [sha256.Size]byte

// Action returns a key that is equal for two calls of the same tool with the same arguments, even for a
// <use_tool> block and a structured call. The order, white space, null arguments and aliases in [Canon]
// make no difference. A number equals a string with its text, since a block has only text. Arguments that
// are no object are compared as they are. Two structured calls with one key may differ, see
// [StructuredAction].
func Action(name, arguments string) ActionKey {
	hash := sha256.New()
	field := func(text string) {
		// The length shows where each text ends. Writing to a hash never fails.
		_, _ = fmt.Fprintf(hash, "%d:%s", len(text), text)
	}
	field(name)
	params, err := readArguments(arguments)
	if err != nil {
		field(strings.TrimSpace(arguments))
		return ActionKey(hash.Sum(nil))
	}
	renameAliases(name, params)
	slices.SortFunc(params, func(a, b Param) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range params {
		if p.Value != "null" {
			field(p.Name)
			field(plainValue(p.Value))
		}
	}
	return ActionKey(hash.Sum(nil))
}

// renameAliases changes the names in given to those of [Canon]. An alias stays if given has the canonical
// name, too. params are the tool's parameters in Canon; known is false if Canon does not have the tool.
func renameAliases(name string, given []Param) (params []ToolParam, known bool) {
	at := slices.IndexFunc(canon, func(tool Tool) bool { return tool.Name == name })
	if at < 0 {
		return nil, false
	}
	for _, p := range canon[at].Params {
		if i := paramAt(given, p.Alias); p.Alias != "" && i >= 0 && paramAt(given, p.Name) < 0 {
			given[i].Name = p.Name
		}
	}
	return canon[at].Params, true
}

func paramAt(params []Param, name string) int {
	return slices.IndexFunc(params, func(p Param) bool { return p.Name == name })
}

// StructuredAction returns a key that is equal for two structured calls of the same tool with the same
// arguments; order of members and white space do not matter. What is no JSON is compared as it is.
func StructuredAction(name, arguments string) ActionKey {
	decoder := json.NewDecoder(strings.NewReader(arguments))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err == nil && !decoder.More() {
		canonical, _ := json.Marshal(value) // sorts the members; what was decoded always encodes
		arguments = string(canonical)
	}
	return sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(name), name, arguments))
}

// plainValue returns a raw JSON value as it is written in a block.
func plainValue(raw string) string {
	if text, ok := wirejson.Value(wirejson.View(raw)).AsText(); ok {
		raw = strings.TrimSpace(text)
	}
	if isJSONContainer(raw) {
		return compactJSON(raw)
	}
	return raw
}
