package appserver

import (
	"cmp"
	"encoding/json"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

const (
	// providerRetries is how often, at most, the caller restarts a turn that fails before its answer
	// begins. One restart is enough to get over a single failure; clients repeat requests, too.
	providerRetries = 1
	// connectTimeout bounds the handshake of a WebSocket. It is more than a handshake takes over a
	// slow network, TLS included. Codex's own limit is 15 s.
	connectTimeout = 3 * time.Second
	// openAI is Codex's name of its built-in provider for OpenAI.
	openAI = "openai"
	// ownOpenAI is the name under which this package configures the provider OpenAI with changed
	// settings. Codex refuses changed settings under the name openAI.
	ownOpenAI = "openai-of-caddy-codex"
)

// providerSettings are those settings of a thread that choose its model provider. socketMembers and
// httpMembers are members of a JSON object, without its braces.
//
// Codex's own settings are for a person at a terminal: Codex asks a failing provider up to 47 times,
// waits for as long as a Retry-After header says, and tries a WebSocket again in each conversation.
// With these settings, Codex asks once, and the caller restarts a failed turn.
type providerSettings struct {
	socketMembers codexrpc.Constant // with these, Codex uses a WebSocket, if the provider has WebSockets
	httpMembers   codexrpc.Constant // with these, Codex uses only HTTP
	// retries is providerRetries, or 0 if Codex itself repeats requests to the provider.
	retries int
}

// newProviderSettings returns the settings for the provider in a configuration. It does not change
// what the operator has set. It returns no settings if the provider is built into Codex and is not
// OpenAI, or if the version is not known.
func newProviderSettings(config *providerConfig, version string) (s providerSettings) {
	if version == codexrpc.UnknownVersion {
		return providerSettings{}
	}
	name, hasSockets := cmp.Or(config.ModelProvider, openAI), false
	configured, isConfigured := config.ModelProviders[name]
	entry := make(map[string]any)
	switch {
	case isConfigured:
		hasSockets, _ = configured["supports_websockets"].(bool)
	case name == openAI:
		name, hasSockets, entry = ownOpenAI, true, openAIEntry(config.OpenAIBaseURL, version)
	default:
		return providerSettings{}
	}
	add := func(setting string, value any) { // without changing what the operator has set
		if !isSet(configured, setting) {
			entry[setting] = value
		}
	}
	add("request_max_retries", 0)
	add("stream_max_retries", 0) // after a failed WebSocket, Codex still asks over HTTP
	add("websocket_connect_timeout_ms", connectTimeout.Milliseconds())
	if !isSet(configured, "request_max_retries") && !isSet(configured, "stream_max_retries") {
		s.retries = providerRetries
	}
	s.httpMembers = providerMembers(name, entry) // without WebSockets, the same as socketMembers
	if hasSockets {
		entry["supports_websockets"] = false
		s.httpMembers = providerMembers(name, entry)
		entry["supports_websockets"] = true
	}
	s.socketMembers = providerMembers(name, entry)
	return s
}

func isSet(settings map[string]any, name string) bool {
	_, set := settings[name]
	return set
}

// openAIEntry returns Codex's built-in settings for OpenAI. Without a base URL, Codex uses that of the login.
func openAIEntry(baseURL, version string) map[string]any {
	entry := map[string]any{
		"name":                 "OpenAI", // Codex recognizes the provider by this name
		"requires_openai_auth": true,
		"http_headers":         map[string]string{"version": version},
		"env_http_headers":     map[string]string{"OpenAI-Organization": "OPENAI_ORGANIZATION", "OpenAI-Project": "OPENAI_PROJECT"},
	}
	if baseURL != "" {
		entry["base_url"] = baseURL
	}
	return entry
}

func providerMembers(name string, entry map[string]any) codexrpc.Constant {
	members, _ := json.Marshal(map[string]any{ // cannot fail: there are only strings, numbers and booleans
		"model_provider":  name,
		"model_providers": map[string]any{name: entry},
	})
	return codexrpc.Constant(members[1 : len(members)-1])
}

// ProviderSettings returns those settings of a new thread that choose the model's provider and how
// Codex reaches it: over HTTP only, or over a WebSocket if the provider has WebSockets. They are
// members of a JSON object without its braces, and empty if the app-server's own configuration
// decides, as it does with Config.Start.
func (in *Instance) ProviderSettings(overHTTP bool) codexrpc.Constant {
	if overHTTP {
		return in.settings.httpMembers
	}
	return in.settings.socketMembers
}

// ProviderRetries returns how often, at most, the caller restarts a turn that fails before its
// answer begins. It returns 0 if Codex itself repeats requests to the provider.
func (in *Instance) ProviderRetries() int { return in.settings.retries }

// FirstSign returns how long the model may take to begin a turn. After that, the caller treats the
// provider as not answering. In this time, Codex may wait for two handshakes, and perhaps for the
// settings of its login, before it asks over HTTP. With Config.Start it returns 0: not known.
func (p *Process) FirstSign() time.Duration {
	if p.cfg.Start != nil {
		return 0
	}
	return 6 * connectTimeout
}

// SocketsPaused reports whether new threads use HTTP for a while, see [Process.SocketFailed].
func (p *Process) SocketsPaused() bool {
	p.sockets.mu.Lock()
	defer p.sockets.mu.Unlock()
	return p.sockets.isActive(time.Now())
}

// SocketWorked records that a thread's first turn was answered over a WebSocket.
func (p *Process) SocketWorked() {
	p.sockets.mu.Lock()
	defer p.sockets.mu.Unlock()
	p.sockets.worked = true
}

// SocketFailed records that the WebSocket of a thread has failed in the thread's first turn, which
// began at the time begun, and that the provider has then answered over HTTP. Unless other
// WebSockets work, new threads use HTTP for a while after that.
func (p *Process) SocketFailed(begun time.Time) {
	p.sockets.mu.Lock()
	pause, began := p.sockets.fail(begun, time.Now())
	p.sockets.mu.Unlock()
	if began {
		p.Log().Warn("the model's provider answers over HTTP, but not over a WebSocket; conversations begin over HTTP", "for", pause.String())
	}
}

const (
	// The first and the longest pause without WebSockets. They grow, since each new try may delay a
	// request: by some seconds if the handshake is not answered, by little if it is refused.
	firstSocketPause   = time.Minute
	longestSocketPause = time.Hour
)

// socketPause is a time without WebSockets, after a WebSocket has failed.
type socketPause struct {
	mu     sync.Mutex
	until  time.Time
	length time.Duration // the length of the last pause
	worked bool          // a WebSocket has worked since the last failure
	failed time.Time     // the last failure
}

func (s *socketPause) isActive(now time.Time) bool { return now.Before(s.until) }

// fail begins a pause after a failure in a turn that began at the time begun. It begins none if a pause is
// under way, if another WebSocket has worked since the previous failure, or if the turn began before the
// previous failure: a provider that restarts cuts many WebSockets at once. A new pause has the length
// firstSocketPause. But if the last pause ended less than its own length ago, the new pause is four times
// as long, up to longestSocketPause. fail returns the last pause's length, and whether it has just begun.
func (s *socketPause) fail(begun, now time.Time) (length time.Duration, began bool) {
	excused := s.worked || begun.Before(s.failed)
	s.worked, s.failed = false, now
	if excused || s.isActive(now) {
		return s.length, false
	}
	if s.length > 0 && now.Sub(s.until) < s.length {
		s.length = min(4*s.length, longestSocketPause)
	} else {
		s.length = firstSocketPause
	}
	s.until = now.Add(s.length)
	return s.length, true
}
