package codexrpc

import "encoding/json"

// The methods of the app-server that this client calls.
const (
	methodInitialize        = "initialize"
	methodInitialized       = "initialized"
	methodAuthStatus        = "getAuthStatus"
	methodAccountRead       = "account/read"
	methodModelList         = "model/list"
	methodConfigRead        = "config/read"
	methodThreadStart       = "thread/start"
	methodThreadInject      = "thread/inject_items"
	methodThreadUnsubscribe = "thread/unsubscribe"
	methodTurnStart         = "turn/start"
	methodTurnInterrupt     = "turn/interrupt"
	methodTurnSteer         = "turn/steer"
	methodRateLimitsRead    = "account/rateLimits/read"
	methodDiagnostics       = "server/diagnostics"
)

// ClientInfo is this client's name and version (InitializeParams.clientInfo).
type ClientInfo struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

type initializeParams struct {
	ClientInfo   ClientInfo `json:"clientInfo"`
	Capabilities struct {
		ExperimentalAPI           bool     `json:"experimentalApi"`
		RequestAttestation        bool     `json:"requestAttestation"`
		OptOutNotificationMethods []string `json:"optOutNotificationMethods,omitempty"`
	} `json:"capabilities"`
}

// Account is the answer to account/read.
type Account struct {
	// Account describes the login; null: there is no login, or the provider refuses it.
	Account json.RawMessage `json:"account"`
	// RequiresOpenAIAuth reports whether the configured model provider needs a login.
	RequiresOpenAIAuth bool `json:"requiresOpenaiAuth"`
}

// LoggedIn reports whether there is a login that the provider accepts, or the provider needs none.
func (a Account) LoggedIn() bool {
	return !a.RequiresOpenAIAuth || (len(a.Account) > 0 && string(a.Account) != "null")
}

// Pictures reports whether Codex may offer its tool for pictures to models. Codex offers it with a
// ChatGPT login on a paid plan. With a provider that needs no login, the offer depends on settings
// that are not known here, so Pictures returns true.
func (a Account) Pictures() bool {
	return !a.RequiresOpenAIAuth || textAt([]byte(a.Account), "type") == "chatgpt" && textAt([]byte(a.Account), "planType") != "free"
}

// Model is a model in the answer to model/list, with the members that this client uses.
type Model struct {
	ID        string `json:"id"`
	Model     string `json:"model"`
	Hidden    bool   `json:"hidden"`
	IsDefault bool   `json:"isDefault"`
}

// ThreadStartParams are the parameters of thread/start. For an omitted parameter, the app-server uses its
// own configuration. A BaseInstructions that is not nil replaces Codex's own prompt, even if empty.
type ThreadStartParams struct {
	Model                 string        `json:"model,omitempty"`
	ServiceTier           string        `json:"serviceTier,omitempty"` // Codex ignores a tier that is neither "flex" nor in the model's catalogue entry
	BaseInstructions      *string       `json:"baseInstructions,omitempty"`
	DeveloperInstructions string        `json:"developerInstructions,omitempty"`
	Cwd                   string        `json:"cwd,omitempty"`
	ApprovalPolicy        string        `json:"approvalPolicy,omitempty"`
	Sandbox               string        `json:"sandbox,omitempty"`
	Ephemeral             bool          `json:"ephemeral"`
	ExperimentalRawEvents bool          `json:"experimentalRawEvents"`
	Environments          []struct{}    `json:"environments"` // empty but not nil: no access to the host
	Config                Config        `json:"config,omitzero"`
	DynamicTools          []DynamicTool `json:"dynamicTools,omitempty"`
}

// Config is the configuration of a thread. Each setting has a name and a JSON value.
type Config struct {
	// Fixed are the settings of all threads, as JSON: the members of an object without the braces.
	Fixed Constant
	// Place are the settings of where the thread runs, in the same form; empty: none.
	Place Constant
	// Own are all other settings of this thread. Their names must not occur in Fixed or Place.
	Own map[string]any
}

// EffortSetting is the name of the setting for a thread's reasoning effort. A turn can change the
// effort, see [TurnStartParams].
const EffortSetting = "model_reasoning_effort"

// Efforts lists the reasoning efforts (ReasoningEffort in OpenAI's API), the lowest first. Codex's "ultra"
// is missing: with it, a model delegates to agents.
var Efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// Effort returns the reasoning effort; empty: the model's default.
func (c Config) Effort() string {
	effort, _ := c.Own[EffortSetting].(string)
	return effort
}

// IsZero reports whether there are no settings.
func (c Config) IsZero() bool { return c.Fixed == "" && c.Place == "" && len(c.Own) == 0 }

// Constant is JSON on one line. It is encoded only one time and sent many times unchanged.
type Constant string

// DynamicTool declares a client's tool. The app-server requires description and inputSchema.
type DynamicTool struct {
	Type        string          `json:"type"` // always "function"
	Name        string          `json:"name"` // ^[a-zA-Z0-9_-]{1,128}$
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"` // a JSON Schema object
}

// UserInput is one part of a turn's input: a text or an image.
type UserInput struct {
	Type   string // "text" or "image"
	Text   string // only for a text
	URL    string // only for an image: a data URL, since the app-server refuses other URLs
	Detail string // only for an image: auto, high or original; empty means auto
}

// TurnStartParams are the parameters of turn/start. If Input is empty, the model continues from the
// thread's history, such as injected tool results.
type TurnStartParams struct {
	ThreadID     string          `json:"threadId"`
	Input        []UserInput     `json:"input"`
	Effort       string          `json:"effort,omitempty"` // reasoning effort of this turn and the next ones; empty: as before
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
}

// Usage has the counts of tokens of one model response or of a thread (TokenUsageBreakdown).
type Usage struct {
	TotalTokens           int64 `json:"totalTokens"`
	InputTokens           int64 `json:"inputTokens"`
	CachedInputTokens     int64 `json:"cachedInputTokens"`     // tokens that were read from the provider's cache
	CacheWriteInputTokens int64 `json:"cacheWriteInputTokens"` // tokens that were written to the provider's cache
	OutputTokens          int64 `json:"outputTokens"`
	ReasoningOutputTokens int64 `json:"reasoningOutputTokens"`
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage { return u.plus(v, 1) }

// Sub returns u minus v. Numbers below 0 become 0.
func (u Usage) Sub(v Usage) Usage { return u.plus(v, -1) }

// plus returns u + times*v. Numbers below 0 become 0.
func (u Usage) plus(v Usage, times int64) Usage {
	return Usage{
		TotalTokens:           max(0, u.TotalTokens+times*v.TotalTokens),
		InputTokens:           max(0, u.InputTokens+times*v.InputTokens),
		CachedInputTokens:     max(0, u.CachedInputTokens+times*v.CachedInputTokens),
		CacheWriteInputTokens: max(0, u.CacheWriteInputTokens+times*v.CacheWriteInputTokens),
		OutputTokens:          max(0, u.OutputTokens+times*v.OutputTokens),
		ReasoningOutputTokens: max(0, u.ReasoningOutputTokens+times*v.ReasoningOutputTokens),
	}
}
