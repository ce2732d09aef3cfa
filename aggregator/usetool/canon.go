// Package usetool reads and writes <use_tool> blocks, the textual tool calls of
// Obsidian Copilot. The Scanner of package aggregator finds them in a text.
//
// [Parse] reads a block, [RenderXML] writes one, and [Shape] and [Canon] have the parameters
// that the client wants. [Action] compares calls of any form by what they do.
//
// The package is pure: no input or output, no clock, no log, no global state.
package usetool

import "slices"

// Tool is a tool of Obsidian Copilot, as the client's own schemas describe it.
type Tool struct {
	Name   string
	Params []ToolParam // in the canonical order; nil: the tool has none, and the client refuses a call with any
}

// ToolParam is a parameter of a Tool.
type ToolParam struct {
	Name     string // the tag that the client reads
	Required bool   // the client refuses a call without it
	Alias    string // another name that a model may give it; empty: there is none
}

// canon are the tools that Obsidian Copilot 3.0.0 to 3.1.5 reads from text.
var canon = []Tool{
	{"localSearch", []ToolParam{required("query"), required("salientTerms"), optional("timeRange")}},
	{"webSearch", []ToolParam{required("query"), required("chatHistory")}},
	{"getCurrentTime", []ToolParam{optional("timezoneOffset")}},
	{"getTimeInfoByEpoch", []ToolParam{required("epoch")}},
	{"getTimeRangeMs", []ToolParam{required("timeExpression")}},
	{"convertTimeBetweenTimezones", []ToolParam{required("time"), required("fromOffset"), required("toOffset")}},
	// Models also write path, which the client refuses.
	{"readNote", []ToolParam{{Name: "notePath", Required: true, Alias: "path"}, optional("chunkIndex")}},
	{"writeToFile", []ToolParam{required("path"), required("content"), optional("confirmation")}},
	{"replaceInFile", []ToolParam{required("path"), required("diff")}},
	{"getFileTree", nil},
	{"youtubeTranscription", nil},
	{"getTagList", nil}, // the client refuses the options of this tool in a block
	{"updateMemory", []ToolParam{required("statement")}},
	{"memoryTool", []ToolParam{required("memoryContent")}}, // 3.1.0 only
	{"startPomodoro", []ToolParam{optional("interval")}},   // 3.0.x only
	{"indexTool", nil},
}

func required(name string) ToolParam { return ToolParam{Name: name, Required: true} }

func optional(name string) ToolParam { return ToolParam{Name: name} }

// Canon returns the tools that Obsidian Copilot reads from text, as a copy for the caller.
func Canon() []Tool {
	tools := slices.Clone(canon)
	for i := range tools {
		tools[i].Params = slices.Clone(tools[i].Params)
	}
	return tools
}
