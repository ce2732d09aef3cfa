package appserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"
)

// maxConfig bounds the files of the operator that are read, in bytes.
const maxConfig = 4 << 20

// providerConfig has what a private home copies from the operator's config.toml: which model
// provider, its models, how to reach it and log in. Without the other settings, callers of the API
// cannot use the operator's tools, hooks and instructions.
type providerConfig struct {
	Model              string                    `toml:"model,omitempty"`
	ModelProvider      string                    `toml:"model_provider,omitempty"`
	ModelProviders     map[string]map[string]any `toml:"model_providers,omitempty"`
	ModelContextWindow int64                     `toml:"model_context_window,omitzero"`
	ModelCatalogJSON   string                    `toml:"model_catalog_json,omitempty"`
	OpenAIBaseURL      string                    `toml:"openai_base_url,omitempty"`
	ChatGPTBaseURL     string                    `toml:"chatgpt_base_url,omitempty"`
	ForcedLoginMethod  string                    `toml:"forced_login_method,omitempty"`
	// ForcedWorkspace is a string or a list of strings.
	ForcedWorkspace  any    `toml:"forced_chatgpt_workspace_id,omitempty"`
	CredentialsStore string `toml:"cli_auth_credentials_store,omitempty"`
}

type operatorConfig struct {
	providerConfig
	// Profile selects a profile. Codex ignores the profile and uses its defaults, perhaps with another
	// provider. So this package refuses a file with a profile.
	Profile  string `toml:"profile"`
	Features struct {
		RespectSystemProxy bool `toml:"respect_system_proxy"`
	} `toml:"features"`
}

// privateConfig is the config.toml of a private home. In addition to the settings of
// providerConfig, it has settings that keep Codex from reading the files of a project around the
// working directory, and from fetching plugins and unpacking skills for each new home.
type privateConfig struct {
	providerConfig
	ProjectRootMarkers []string        `toml:"project_root_markers"`
	Features           map[string]bool `toml:"features"`
	Analytics          map[string]any  `toml:"analytics"`
	Skills             map[string]any  `toml:"skills"`
}

func readOperatorConfig(home string) (operatorConfig, error) {
	path := filepath.Join(home, configFile)
	content, err := readBounded(path, maxConfig)
	if errors.Is(err, os.ErrNotExist) {
		return operatorConfig{}, nil
	}
	if err != nil {
		return operatorConfig{}, fmt.Errorf("%w: %w", errConfig, err)
	}
	config, err := parseOperatorConfig(content)
	if err != nil {
		return operatorConfig{}, fmt.Errorf("%w: %s: %w", errConfig, path, err)
	}
	config.resolve(home)
	return config, nil
}

func parseOperatorConfig(content []byte) (config operatorConfig, err error) {
	if err := toml.Unmarshal(content, &config); err != nil {
		return operatorConfig{}, errors.New(strings.TrimPrefix(err.Error(), "toml: "))
	}
	for name, provider := range config.ModelProviders {
		if provider == nil {
			return operatorConfig{}, fmt.Errorf("model_providers.%s is not a table", name)
		}
	}
	if config.Profile != "" {
		return operatorConfig{}, fmt.Errorf("it selects the profile %q, which the codex app-server does not know: write its settings at the top of the file", config.Profile)
	}
	return config, nil
}

// readBounded reads a regular file of at most limit bytes. It opens no other file, since opening a pipe
// would wait for a writer.
func readBounded(path string, limit int) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err == nil && len(content) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return content, err
}

// resolve makes the paths in c absolute, which are relative to home, the operator's CODEX_HOME. home is also
// the working directory of an auth command that has none.
func (c *providerConfig) resolve(home string) {
	c.ModelCatalogJSON = resolvePath(home, c.ModelCatalogJSON)
	for _, provider := range c.ModelProviders {
		if auth, ok := provider["auth"].(map[string]any); ok {
			dir, _ := auth["cwd"].(string)
			auth["cwd"] = resolvePath(home, dir)
			if dir == "" {
				auth["cwd"] = home
			}
		}
	}
}

// resolvePath makes a path absolute, unless it is empty or begins with ~, which Codex resolves.
func resolvePath(home, path string) string {
	if path == "" || filepath.IsAbs(path) || path == "~" || strings.HasPrefix(path, "~/") {
		return path
	}
	return filepath.Join(home, path)
}

// variableNames returns the environment variables that have the providers' keys and headers.
func (c *providerConfig) variableNames() (names []string) {
	for _, provider := range c.ModelProviders {
		if name, ok := provider["env_key"].(string); ok {
			names = append(names, name)
		}
		headers, _ := provider["env_http_headers"].(map[string]any)
		for _, variable := range headers {
			if name, ok := variable.(string); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

func (c *operatorConfig) encodePrivate() ([]byte, error) {
	config := privateConfig{
		providerConfig:     c.providerConfig,
		ProjectRootMarkers: []string{}, // none: the working directory is the root of the project
		Features:           map[string]bool{"plugins": false, "apps": false, "hooks": false, "memories": false},
		Analytics:          map[string]any{"enabled": false},
		Skills:             map[string]any{"include_instructions": false, "bundled": map[string]any{"enabled": false}},
	}
	if c.Features.RespectSystemProxy {
		config.Features["respect_system_proxy"] = true
	}
	if c.mayUseKeyring() {
		config.CredentialsStore = "file"
	}
	var text bytes.Buffer
	err := toml.NewEncoder(&text).Encode(config)
	return text.Bytes(), err
}

// mayUseKeyring reports whether Codex may keep the operator's login in the system's keyring. An entry of
// the keyring belongs to the path of one home, so a private home cannot use the operator's entry. If the
// private home had the same setting, Codex would make an entry for the private home at a renewal, and
// remove the file with the login.
func (c *providerConfig) mayUseKeyring() bool {
	return c.CredentialsStore == "keyring" || c.CredentialsStore == "auto"
}
