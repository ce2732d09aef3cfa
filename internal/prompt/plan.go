package prompt

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Options are what a plan depends on besides the request.
type Options struct {
	NoReasoning bool   // the model is asked for no summaries of its reasoning
	SerialTools bool   // the model may make at most one tool call, whatever the request says
	Effort      string // the effort if neither the request nor Resolve names one; empty: the model's default
	Summary     string // the [Conversation.Summary] of requests that have none; empty: auto
	// Resolve returns Codex's name of a client's model, and the effort for requests that name none.
	// An empty effort means the model's default. If forced is true, the effort also replaces an
	// effort that a request names. If Resolve is nil, clients use Codex's names.
	Resolve func(model string) (codexModel, effort string, forced bool)
	// Efforts returns the least and the most effort that one of Codex's models accepts. Each is empty if
	// it is not known. If Efforts is nil, they are not known.
	Efforts func(codexModel string) (least, most string)
}

// Plan is a request to Codex: start a thread with Thread, inject History if it is not empty, set
// Turn.ThreadID, and start the turn with Turn.
type Plan struct {
	Settings // Choices is at least 1

	Thread  codexrpc.ThreadStartParams
	History []json.RawMessage        // compact items of the Responses API, in one buffer
	Turn    codexrpc.TurnStartParams // its Input is never nil
	Tools   ToolNames

	WebSearch   bool   // the model may search the web
	Picture     bool   // the turn makes one picture with Codex's own tool, and ends with it
	Summary     bool   // the turn writes a summary of the conversation
	ServiceTier string // the service_tier of the answer
}

// defaultInstructions replace missing instructions. Otherwise, Codex would insert its prompt for a coding agent.
const defaultInstructions = "You are a helpful assistant."

// maxInputChars is how many characters turn/start accepts; with more, it fails with input_too_large.
const maxInputChars = 1 << 20

// Plan maps the conversation to Codex:
//
//   - The system and developer messages at the beginning, joined by blank lines, are the
//     instructions of the thread. Later ones stay where they are, as developer messages.
//   - A user message at the end is the input of the turn, even if it is empty. If the last
//     message is not a user's, or is longer than turn/start accepts, it becomes the end of
//     the history. The input is then empty, and the model answers the history.
//   - Everything between becomes the history. An assistant's text comes before its calls.
//     An assistant's message without text and calls is left out.
//   - Tools keep their names, except names under which Codex would not offer them.
//   - tool_choice, parallel_tool_calls: false and formats that the provider does not enforce become
//     a developer instruction, since Codex has no settings for them.
//
// It fails if a remote image has not been fetched, see [Conversation.SetImages].
func (c *Conversation) Plan(opts Options) (*Plan, *apierror.Error) {
	if apiErr := c.checkFetched(); apiErr != nil {
		return nil, apiErr
	}
	offered := c.Choice.offeredTools(c.Tools)
	names := newToolNames(c.Tools, offered)
	instructions, rest := SplitInstructions(c.Messages)
	schema := c.Format.schema
	if c.Shortening.Summary {
		rest, schema = c.forSummary(rest), nil
	}
	history, input := splitInput(rest)
	model, effort := c.ResolveModel(opts)
	var summary any = "auto" // boxed without an allocation, as no variable is
	if s := cmp.Or(c.Summary, opts.Summary); s != "" {
		summary = s
	}
	if opts.NoReasoning {
		summary = "none"
	}
	serial, serialInstruction := c.SerialTools || opts.SerialTools, ""
	if serial && len(offered) > 0 {
		serialInstruction = oneCall
	}
	p := &Plan{
		Thread: codexrpc.ThreadStartParams{
			Model:                 model,
			BaseInstructions:      &instructions,
			ServiceTier:           c.serviceTier,
			DeveloperInstructions: joinParagraphs(serialInstruction, c.Choice.instruction(names), c.Format.instruction),
			ApprovalPolicy:        "never",
			Sandbox:               "read-only",
			Ephemeral:             true,
			ExperimentalRawEvents: true,
			Environments:          []struct{}{},
			Config:                c.threadConfig(effort, summary),
			DynamicTools:          dynamicTools(offered, names),
		},
		History: historyItems(history, names),
		Turn: codexrpc.TurnStartParams{
			Input:        input,
			OutputSchema: schema,
		},
		Settings:    c.Settings,
		Tools:       names,
		WebSearch:   c.maySearch(),
		Picture:     c.Picture,
		Summary:     c.Shortening.Summary,
		ServiceTier: c.ServiceTier(),
	}
	p.Choices, p.SerialTools = c.Choices(), serial
	return p, nil
}

func (c *Conversation) threadConfig(effort string, summary any) codexrpc.Config {
	config := map[string]any{summaryKey: summary, "web_search": "disabled", "tools": toolSettings}
	if effort != "" {
		config[effortKey] = effort
	}
	if c.maySearch() {
		c.Search.configure(config)
	}
	if c.Verbosity != "" { // Codex passes it on to the models that accept a verbosity
		config["model_verbosity"] = c.Verbosity
	}
	fixed := fixedSettings
	if c.Picture {
		fixed = fixedSettingsWithPictures
	}
	return codexrpc.Config{Fixed: fixed, Own: config}
}

// ResolveModel returns Codex's name of the model, and the effort. Either is empty for the default. If a forced
// effort replaces the effort that the client names, it adds the client's field to Ignored.
func (c *Conversation) ResolveModel(opts Options) (model, effort string) {
	model, forced := c.Model, false
	if opts.Resolve != nil {
		model, effort, forced = opts.Resolve(c.Model)
		if model == c.Model && c.DefaultsModel {
			model, effort, forced = opts.Resolve(DefaultModel)
		}
	}
	if forced && c.Effort != "" && c.Effort != effort {
		c.Ignore(cmp.Or(c.EffortField, "reasoning_effort"))
		return model, effort
	}
	return model, cmp.Or(c.Effort, effort, opts.Effort)
}

// oneCall is the instruction of a plan with SerialTools, since Codex sends parallel_tool_calls: false only
// to lite models, and only if they do not search the web. A request continues only a kept thread that has the
// same instructions. So a request with oneCall never continues a thread in which several calls are allowed.
const oneCall = "Make at most one tool call in each reply, and wait for its result."

// SplitInstructions splits off the instructions at the beginning. If there are none, it returns
// defaultInstructions.
func SplitInstructions(messages []Message) (instructions string, rest []Message) {
	var texts []string
	for len(messages) > 0 && messages[0].Role.isInstruction() {
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

func joinParagraphs(paragraphs ...string) string {
	return strings.Join(slices.DeleteFunc(paragraphs, func(p string) bool { return p == "" }), "\n\n")
}

func dynamicTools(tools []Tool, names ToolNames) []codexrpc.DynamicTool {
	dynamic := slices.Grow[[]codexrpc.DynamicTool](nil, len(tools)) // stays nil if there are no tools
	for _, t := range tools {
		schema, moreDescription := fitSchema(t.Schema)
		dynamic = append(dynamic, codexrpc.DynamicTool{
			Type: "function", Name: names.Codex(t.Name), Description: joinParagraphs(t.Description, moreDescription), InputSchema: schema,
		})
	}
	return dynamic
}

// Placement says where Codex gets the instructions of a conversation. With the zero Placement, as in a
// [Plan], the instructions replace Codex's own prompt.
type Placement struct {
	Append bool // Codex's own prompt stays, and the instructions follow it
	// If EmptyBase is true, the base prompt is empty, and the first developer message has its text.
	// A lite model without tools needs this: otherwise it could get the base prompt twice.
	EmptyBase bool
	// CodexPrompt is Codex's own prompt. It is needed if both Append and EmptyBase are true; if it is
	// empty then, EmptyBase has no effect.
	CodexPrompt string
}

// WithPlacement returns the parameters of thread/start and the history, with the instructions where the
// Placement says. With EmptyBase, the model reads the same messages as without it, with one exception: if
// Append is false, all instructions become one message.
func (p *Plan) WithPlacement(placement Placement) (codexrpc.ThreadStartParams, []json.RawMessage) {
	thread, history := p.Thread, p.History
	if !placement.Append && !placement.EmptyBase {
		return thread, history
	}
	instructions := *thread.BaseInstructions
	if thread.DeveloperInstructions != "" {
		instructions += "\n\n" + thread.DeveloperInstructions
	}
	switch {
	case !placement.Append:
		thread.BaseInstructions, thread.DeveloperInstructions = new(string), instructions
	case !placement.EmptyBase || placement.CodexPrompt == "":
		thread.BaseInstructions, thread.DeveloperInstructions = nil, instructions // nil: Codex's own prompt
	default:
		thread.BaseInstructions, thread.DeveloperInstructions = new(string), placement.CodexPrompt
		first := Message{Text: wirejson.AppendString(nil, instructions)}
		history = slices.Concat([]json.RawMessage{first.appendMessage(nil, "developer", "input_text")}, history)
	}
	return thread, history
}

// The settings of reasoning are given at thread/start, although turn/start accepts them, too: Codex
// prepares the provider's request at thread/start, and would have to send it again.
const (
	effortKey  = codexrpc.EffortSetting
	summaryKey = "model_reasoning_summary"
)

// The configuration of every thread: the model gets the client's tools and instructions, and nothing
// of the host. The names are Codex's and change with releases; unknown ones only cause a warning.
const (
	fixedSettings             codexrpc.Constant = settingsBeforePictures + `false` + settingsAfterPictures
	fixedSettingsWithPictures codexrpc.Constant = settingsBeforePictures + `true` + settingsAfterPictures

	// code_mode: every model calls the client's tools directly. Otherwise "code_mode_only" models
	// of the catalogue would call them from a script of Codex, without items for the calls.
	settingsBeforePictures = `"agents":` + disabledSetting + `,"features":{"apps":false,"code_mode":{"direct_only_tool_namespaces":["functions"]},` +
		`"goals":false,"hooks":false,"image_generation":`
	// unbounded_connection_retries is off: with it, Codex would wait for ever for a provider that
	// cannot be reached. thread_unload_delay_secs is 0: by default, an ephemeral thread would stay
	// in memory for half an hour after its last subscriber has left.
	settingsAfterPictures = `,"memories":false,"multi_agent":false,` +
		`"plugins":false,"shell_snapshot":false,"shell_tool":false,"sleep_tool":false,"tool_suggest":false,` +
		`"unbounded_connection_retries":false,"unified_exec":false,"view_image":false}` +
		`,"include_collaboration_mode_instructions":false,"include_environment_context":false` +
		`,"include_permissions_instructions":false,"model_auto_compact_token_limit":` + unlimitedTokens +
		`,"project_doc_max_bytes":0,"skills":{"bundled":` + disabledSetting + `,"include_instructions":false}` +
		`,"thread_unload_delay_secs":0,"tool_output_token_limit":` + unlimitedTokens

	// unlimitedTokens is more than any request has, and Codex can still multiply it. With a lower limit,
	// Codex would shorten long results of tools, and replace a long history by a summary.
	unlimitedTokens = "1099511627776"

	disabledSetting = `{"enabled":false}`

	userInputTool                   = "experimental_request_user_input"
	toolSettings  codexrpc.Constant = `{"` + userInputTool + `":` + disabledSetting + `}` // for threads without web search
)
