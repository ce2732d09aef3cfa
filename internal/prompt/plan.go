package prompt

import (
	"encoding/json"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/toolschema"
)

// Options are what a plan needs to know besides the request.
type Options struct {
	// Cwd is the working directory of the thread, an absolute path. Empty: the
	// app-server's own.
	Cwd string
	// NoReasoning asks Codex for no summaries of the model's reasoning.
	NoReasoning bool
	// Resolve says which of Codex's models a client's model stands for, and with
	// what effort unless the request asks for one; empty: the model's own. Nil:
	// models are what clients call them.
	Resolve func(model string) (codexModel, effort string)
}

// Plan is a chat request in the app-server's terms: start a thread with Thread,
// put History into it unless that is empty, start the turn with Turn (whose
// ThreadID is the caller's to set) and read its outputs.
type Plan struct {
	// Thread are the parameters of thread/start.
	Thread codexrpc.ThreadStartParams
	// History are the items of thread/inject_items, in the Responses API's
	// shapes, each a compact JSON object. They share one buffer.
	History []json.RawMessage
	// Turn are the parameters of turn/start. Its Input is never nil.
	Turn codexrpc.TurnStartParams
	// Tools maps the tool names that Codex uses back to the client's.
	Tools ToolNames
	// ParallelToolCalls is false if the client wants one tool call at most.
	ParallelToolCalls bool
	// Choices is how many answers the client wants, 1 to 8: turns of the same
	// kind side by side.
	Choices int
	// StopSequences end the answer's text before the first of them. At most 4,
	// none of them empty.
	StopSequences []string
	// MaxTokens is the most tokens that the answer may have; 0: no limit.
	MaxTokens int
	// LegacyFunctions says that the client knows functions instead of tools: an
	// answer's call is a function_call.
	LegacyFunctions bool
	// Stream says that the client wants chunks, IncludeUsage that it wants the
	// usage chunk as well.
	Stream, IncludeUsage bool
	// Model is the model as the client named it; Thread has Codex's name of it.
	Model string
	// Ignored names the parameters of the request that would change the answer
	// but have no counterpart in Codex, in the order of the request.
	Ignored []string
}

// HistorySize is the size of the history, in bytes.
func (p *Plan) HistorySize() (size int) {
	for _, item := range p.History {
		size += len(item)
	}
	return size
}

// defaultInstructions stand in for the instructions of a conversation without
// any: Codex would put its own there, which make a coding agent of the model.
const defaultInstructions = "You are a helpful assistant."

// maxInputChars is the number of characters that turn/start takes, over all
// texts of its input (input_too_large).
const maxInputChars = 1 << 20

// Plan is the part of a plan that does not depend on the wire.
func (c *Conversation) Plan(opts Options) *Plan {
	names := newCodexNames(c.Tools)
	offered := c.Choice.offered(c.Tools)
	instructions, rest := SplitInstructions(c.Messages)
	history, input := splitInput(rest)
	model, effort := c.resolve(opts)
	p := &Plan{
		Thread: codexrpc.ThreadStartParams{
			Model:                 model,
			BaseInstructions:      &instructions,
			DeveloperInstructions: c.developerInstructions(names),
			Cwd:                   opts.Cwd,
			ApprovalPolicy:        "never",
			Sandbox:               "read-only",
			Ephemeral:             true,
			ExperimentalRawEvents: true,
			Environments:          []struct{}{},
			Config:                c.threadConfig(effort),
			DynamicTools:          dynamicTools(offered, names),
		},
		History: historyItems(history, names),
		Turn: codexrpc.TurnStartParams{
			Input:        input,
			OutputSchema: c.Format.schema,
		},
		Tools:             clientNames(offered, names),
		ParallelToolCalls: !c.SerialTools,
		Choices:           1,
		MaxTokens:         c.MaxTokens,
		Stream:            c.Stream,
		Model:             c.Model,
		Ignored:           c.Ignored,
	}
	if opts.NoReasoning {
		p.SetSummary("none")
	}
	return p
}

// SetSummary sets the form of the summaries of the model's reasoning: auto, concise,
// detailed or none.
func (p *Plan) SetSummary(summary string) { p.Thread.Config[summaryKey] = summary }

// threadConfig is the configuration of the thread. Codex passes a verbosity to
// those of its models that take one.
func (c *Conversation) threadConfig(effort string) map[string]any {
	config := threadConfig()
	config[summaryKey] = "auto"
	if effort != "" {
		config[effortKey] = effort
	}
	if c.Verbosity != "" {
		config["model_verbosity"] = c.Verbosity
	}
	return config
}

// resolve is Codex's model, and the effort; empty: the model's own.
func (c *Conversation) resolve(opts Options) (model, effort string) {
	model = c.Model
	if opts.Resolve != nil {
		model, effort = opts.Resolve(c.Model)
	}
	if c.Effort != "" {
		effort = c.Effort
	}
	return model, effort
}

// SplitInstructions takes the instructions off the beginning of a conversation.
func SplitInstructions(messages []Message) (instructions string, rest []Message) {
	var texts []string
	for len(messages) > 0 && messages[0].Role.instructs() {
		for p := range messages[0].Parts() {
			if text := p.Text.Text(); text != "" {
				texts = append(texts, text)
			}
		}
		messages = messages[1:]
	}
	if texts == nil {
		return defaultInstructions, messages
	}
	return strings.Join(texts, "\n\n"), messages
}

// developerInstructions are the instructions that the request's settings make.
func (c *Conversation) developerInstructions(names codexNames) string {
	return joinParagraphs(c.Choice.instruction(names), c.Format.instruction)
}

// joinParagraphs joins two texts by a blank line, if neither is empty.
func joinParagraphs(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

func dynamicTools(tools []Tool, names codexNames) []codexrpc.DynamicTool {
	if len(tools) == 0 {
		return nil
	}
	dynamic := make([]codexrpc.DynamicTool, len(tools))
	for i, t := range tools {
		schema, words := toolschema.Fit(t.Schema)
		dynamic[i] = codexrpc.DynamicTool{
			Type:        "function",
			Name:        names.of(t.Name),
			Description: joinParagraphs(t.Description, words),
			InputSchema: schema,
		}
	}
	return dynamic
}

func clientNames(tools []Tool, names codexNames) ToolNames {
	if len(tools) == 0 {
		return ToolNames{}
	}
	client := make(map[string]string, len(tools))
	for _, t := range tools {
		client[names.of(t.Name)] = t.Name
	}
	return ToolNames{client}
}
