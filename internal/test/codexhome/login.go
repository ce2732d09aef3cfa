package codexhome

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Login are the tokens of a login with a ChatGPT plan.
type Login struct {
	Account, ID, Access, Refresh string
	// Renewed is when they were issued.
	Renewed time.Time
}

// WriteLogin writes auth.json into dir, the CODEX_HOME, as codex login does, an empty
// config.toml unless there is one, and variables for Codex, as NAME=VALUE, into .env.
func WriteLogin(dir string, l Login, variables ...string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	dotEnv := strings.Join(variables, "\n") + "\n"
	if err := os.WriteFile(filepath.Join(dir, ".env"), []byte(dotEnv), 0o600); err != nil {
		return err
	}
	config, err := os.OpenFile(filepath.Join(dir, "config.toml"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := config.Close(); err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{
		"auth_mode": "chatgpt", "OPENAI_API_KEY": nil,
		"tokens":       map[string]string{"id_token": l.ID, "access_token": l.Access, "refresh_token": l.Refresh, "account_id": l.Account},
		"last_refresh": l.Renewed.UTC().Format(time.RFC3339Nano),
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "auth.json"), text, 0o600)
}
