package prompt

import "github.com/caddy-codex/caddy-codex/codexrpc"

// unlimited is a number of tokens that no request has, and that Codex can still
// multiply without an overflow.
const unlimited int64 = 1 << 40

// The settings of the model's reasoning. turn/start has them as well, but Codex
// prepares the request to the provider when a thread starts (the warm-up of a
// WebSocket). A turn whose settings differ would send it again.
const (
	effortKey  = "model_reasoning_effort"
	summaryKey = "model_reasoning_summary"
)

// Parts of the configuration of every thread, which nothing changes.
const (
	// With models of the catalogue's "code_mode_only" the client's tools would be functions
	// of a script that Codex runs, and their calls would be no items. For a fork Codex would
	// run the user's shell to learn its settings (shell_snapshot), for a third of a second.
	features codexrpc.Constant = `{"apps":false,"code_mode":{"direct_only_tool_namespaces":["functions"]},` +
		`"goals":false,"hooks":false,"image_generation":false,"memories":false,"multi_agent":false,` +
		`"plugins":false,"shell_snapshot":false,"shell_tool":false,"sleep_tool":false,"tool_suggest":false,` +
		`"unified_exec":false,"view_image":false}`

	disabled codexrpc.Constant = `{"enabled":false}`
	skills   codexrpc.Constant = `{"bundled":` + disabled + `,"include_instructions":false}`

	userInput                   = "experimental_request_user_input"
	tools     codexrpc.Constant = `{"` + userInput + `":` + disabled + `}` // without a web search
)

// threadConfig returns the configuration of every thread: the model gets the client's
// tools and instructions, and nothing of the host. The names are Codex's own and change
// between its releases. It ignores unknown ones with a warning.
func threadConfig() map[string]any {
	return map[string]any{
		"features":                         features,
		"agents":                           disabled,
		"tools":                            tools,
		"skills":                           skills,
		"web_search":                       "disabled",
		"include_environment_context":      false,
		"include_permissions_instructions": false,
		"include_collaboration_mode_instructions": false,
		"project_doc_max_bytes":                   0,
		// Codex would shorten long results of tools, and replace a long history by a
		// summary.
		"tool_output_token_limit":        unlimited,
		"model_auto_compact_token_limit": unlimited,
		// An ephemeral thread would stay in memory for half an hour after its last
		// subscriber has left.
		"thread_unload_delay_secs": 0,
	}
}
