package usetool

// Tool is a tool of Obsidian Copilot, as the client's own schemas describe it.
type Tool struct {
	// Name is the name of the tool.
	Name string
	// Params holds its parameters in the canonical order. Nil: it takes none, and
	// the client refuses any.
	Params []ToolParam
}

// ToolParam is a parameter of a Tool.
type ToolParam struct {
	// Name is the tag that the client reads.
	Name string
	// Required says that the client refuses a call without it.
	Required bool
	// Alias is another name that a model may give it, and that is read as this
	// one. Empty: there is none.
	Alias string
}

// Canon returns the tools that Obsidian Copilot 3.0.0 to 3.1.5 reads from text, in
// a copy of its own for each caller.
func Canon() []Tool {
	tools := make([]Tool, 0, len(canonNames))
	for _, name := range canonNames {
		tool, _ := LookupTool(name)
		tools = append(tools, tool)
	}
	return tools
}

// canonNames lists the tools of the canon. LookupTool has their parameters.
var canonNames = [...]string{
	"localSearch", "webSearch", "getCurrentTime", "getTimeInfoByEpoch", "getTimeRangeMs",
	"convertTimeBetweenTimezones", "readNote", "writeToFile", "replaceInFile", "getFileTree",
	"youtubeTranscription", "getTagList", "updateMemory", "memoryTool", "startPomodoro", "indexTool",
}

// LookupTool returns a tool of the canon by its name, which is case-sensitive.
func LookupTool(name string) (tool Tool, ok bool) {
	var params []ToolParam
	switch name {
	case "localSearch":
		params = []ToolParam{required("query"), required("salientTerms"), optional("timeRange")}
	case "webSearch":
		params = []ToolParam{required("query"), required("chatHistory")}
	case "getCurrentTime":
		params = []ToolParam{optional("timezoneOffset")}
	case "getTimeInfoByEpoch":
		params = []ToolParam{required("epoch")}
	case "getTimeRangeMs":
		params = []ToolParam{required("timeExpression")}
	case "convertTimeBetweenTimezones":
		params = []ToolParam{required("time"), required("fromOffset"), required("toOffset")}
	case "readNote":
		// Models also write path, which the client refuses.
		params = []ToolParam{{Name: "notePath", Required: true, Alias: "path"}, optional("chunkIndex")}
	case "writeToFile":
		params = []ToolParam{required("path"), required("content"), optional("confirmation")}
	case "replaceInFile":
		params = []ToolParam{required("path"), required("diff")}
	case "updateMemory":
		params = []ToolParam{required("statement")}
	case "memoryTool": // 3.1.0 only
		params = []ToolParam{required("memoryContent")}
	case "startPomodoro": // 3.0.x only
		params = []ToolParam{optional("interval")}
	case "getFileTree", "youtubeTranscription", "indexTool":
	case "getTagList": // its options cannot be written in a block: none would validate
	default:
		return Tool{}, false
	}
	return Tool{Name: name, Params: params}, true
}

func required(name string) ToolParam { return ToolParam{Name: name, Required: true} }

func optional(name string) ToolParam { return ToolParam{Name: name} }
