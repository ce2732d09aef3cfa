package prompt

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/toolschema"
)

// Options are what a plan depends on besides the request.
type Options struct {
	// Cwd is the working directory of the thread, an absolute path. Empty: the
	// app-server's own.
	Cwd string
	// NoReasoning turns off summaries of the model's reasoning.
	NoReasoning bool
	// Resolve returns Codex's name of a client's model, and the effort of requests that
	// ask for none; an empty effort is the model's own. Nil: clients use Codex's names.
	Resolve func(model string) (codexModel, effort string, forced bool)
}

// Plan is a request for Codex: start a thread with Thread, inject History unless it is
// empty, and start the turn with Turn, after setting its ThreadID.
type Plan struct {
	// Thread has the parameters of thread/start.
	Thread codexrpc.ThreadStartParams
	// History has the items of thread/inject_items, each a compact JSON object of the
	// Responses API. They share one buffer.
	History []json.RawMessage
	// Turn has the parameters of turn/start. Its Input is never nil.
	Turn codexrpc.TurnStartParams
	// Tools maps Codex's names of the tools to the client's.
	Tools ToolNames
	// WebSearch is true if the model may search the web.
	WebSearch bool
	// ParallelToolCalls is false if the client wants one tool call at most.
	ParallelToolCalls bool
	// Choices is how many answers the client wants, from 1 to 8. Each is a turn of its
	// own.
	Choices int
	// StopSequences end the text before the first of them. There are at most 4, none of
	// them empty.
	StopSequences []string
	// MaxTokens is the most tokens that the answer may have; 0: no limit.
	MaxTokens int
	// LegacyFunctions is true for a client that knows functions instead of tools: a
	// call is a function_call.
	LegacyFunctions bool
	// Stream is true if the client wants chunks, IncludeUsage if it wants the usage
	// chunk as well.
	Stream, IncludeUsage bool
	// Model is the client's name of the model. Thread has Codex's name.
	Model string
	// ServiceTier is the service_tier of the answer.
	ServiceTier string
	// Ignored lists the parameters that would change the answer but have no counterpart
	// in Codex, in the order of the request.
	Ignored []string
}

// HistorySize returns the size of the history in bytes.
func (p *Plan) HistorySize() (size int) {
	for _, item := range p.History {
		size += len(item)
	}
	return size
}

// defaultInstructions are the instructions of a conversation without any. Codex would
// insert its own, which make the model a coding agent.
const defaultInstructions = "You are a helpful assistant."

// maxInputChars is how many characters turn/start accepts, over all texts of its input
// (input_too_large).
const maxInputChars = 1 << 20

// Plan maps the conversation to Codex:
//
//   - The system and developer messages at the beginning, joined by blank lines, are the
//     instructions of the thread. Later ones stay where they are, as developer messages.
//   - A user message at the end is the input of the turn, even an empty one. If it is
//     longer than turn/start accepts, it becomes the end of the history, and the input is
//     empty: the model then answers to the history. So it is with any other message at
//     the end.
//   - Everything between becomes the history. An assistant's text comes before its calls.
//     A message without text and calls is left out.
//   - Tools keep their names unless Codex would not offer them under these.
//   - tool_choice, for which Codex has no setting, and formats that nobody enforces
//     become a developer instruction.
//
// The plan has one choice and no stop sequences. These belong to chat completions.
func (c *Conversation) Plan(opts Options) *Plan {
	names := newCodexNames(c.Tools)
	offered := c.Choice.offered(c.Tools)
	instructions, rest := SplitInstructions(c.Messages)
	history, input := splitInput(rest)
	model, effort := c.resolve(opts)
	p := &Plan{
		Thread: codexrpc.ThreadStartParams{
			Model:                 model,
			ServiceTier:           c.codexTier(),
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
		WebSearch:         c.searches(),
		ParallelToolCalls: !c.SerialTools,
		Choices:           1,
		MaxTokens:         c.MaxTokens,
		Stream:            c.Stream,
		Model:             c.Model,
		ServiceTier:       c.ServiceTier(),
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

// threadConfig returns the configuration of the thread. Codex passes the verbosity on
// to those of its models that take one.
func (c *Conversation) threadConfig(effort string) map[string]any {
	config := threadConfig()
	config[summaryKey] = "auto"
	if effort != "" {
		config[effortKey] = effort
	}
	if c.searches() {
		c.Search.configure(config)
	}
	if c.Verbosity != "" {
		config["model_verbosity"] = c.Verbosity
	}
	return config
}

// resolve returns Codex's model, and the effort; an empty one is the model's own.
func (c *Conversation) resolve(opts Options) (model, effort string) {
	model = c.Model
	forced := false
	if opts.Resolve != nil {
		model, effort, forced = opts.Resolve(c.Model)
	}
	switch {
	case c.Effort == "" || c.Effort == effort:
		return model, effort
	case forced:
		c.Ignore(cmp.Or(c.EffortField, "reasoning_effort"))
		return model, effort
	}
	return model, c.Effort
}

// SplitInstructions splits the instructions at the beginning off a conversation.
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

// developerInstructions returns the instructions that stand for settings of the
// request.
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
