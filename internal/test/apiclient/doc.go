// Package apiclient reads the API's answers, for tests and the programs that load the server.
package apiclient

// ToolCall is a tool call in a message of chat completions, or a part of one in a delta.
type ToolCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}
