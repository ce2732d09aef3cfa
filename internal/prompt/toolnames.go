package prompt

import (
	"strconv"
	"strings"
)

// ToolNames maps Codex's names of the tools of a request to the client's names. The
// zero value has no tools.
type ToolNames map[string]string

// ClientName returns the client's name of the tool that Codex calls codexName,
// and whether the request offers such a tool.
func (n ToolNames) ClientName(codexName string) (string, bool) {
	name, ok := n[codexName]
	return name, ok
}

// Codex returns the name by which Codex knows a tool of the client's.
func (n ToolNames) Codex(clientName string) string {
	if !isReserved(clientName) {
		return clientName
	}
	for name, client := range n {
		if client == clientName {
			return name
		}
	}
	return clientName
}

// reservedNames are names that Codex does not offer to the model as tools of the
// client. They were found by offering them to Codex 0.169 with each of its models.
var reservedNames = map[string]bool{
	// Rejected.
	"mcp": true,
	// Accepted, but left out, or answered by Codex itself.
	"exec_command":  true,
	"shell_command": true,
	"apply_patch":   true,
	// Codex's own with models that run their tools from a script.
	"exec":                        true,
	"wait":                        true,
	"list_mcp_resources":          true,
	"list_mcp_resource_templates": true,
	"read_mcp_resource":           true,
	// Codex's own unless switched off. Older releases have no such switch.
	"request_user_input":       true,
	"request_user_input_async": true,
	"update_plan":              true,
	"skills":                   true,
}

// reservedPrefix begins the names of the tools of MCP servers. Clients that pass on
// tools of MCP servers use it as well.
const reservedPrefix = "mcp__"

// renamePrefix begins the new name of a tool whose name is reserved.
const renamePrefix = "client_"

func isReserved(name string) bool {
	return reservedNames[name] || strings.HasPrefix(name, reservedPrefix)
}

// codexNames has Codex's names of the tools of a request. The same tools in the same
// order get the same names in every request.
type codexNames struct {
	renamed map[string]string // by the client's name; others keep theirs
}

func newCodexNames(tools []Tool) codexNames {
	var names codexNames
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
			names.renamed = map[string]string{}
		}
		name := freeName(t.Name, taken, &next)
		taken[name] = true
		names.renamed[t.Name] = name
	}
	return names
}

// of returns Codex's name of a tool. The same rule holds for a tool that is declared no
// more but is called in the history.
func (n codexNames) of(name string) string {
	if renamed, ok := n.renamed[name]; ok {
		return renamed
	}
	if isReserved(name) {
		return CutName(renamePrefix+name, "")
	}
	return name
}

// freeName puts the prefix before a name, and a number after it if the result is taken.
// next is the first number that no tool of the request has: without it, many names that
// become equal when they are cut would be counted from the beginning each time.
func freeName(name string, taken map[string]bool, next *int) string {
	free := CutName(renamePrefix+name, "")
	for ; taken[free]; *next++ {
		free = CutName(renamePrefix+name, "_"+strconv.Itoa(*next))
	}
	return free
}

// CutName joins name and suffix. It shortens the name to keep to Codex's limit.
func CutName(name, suffix string) string {
	return name[:min(len(name), maxToolName-len(suffix))] + suffix
}
