package issuer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// store puts the tokens of an answer into the file of a login, as Codex itself does. If the file
// does not contain the spent refresh token, it has newer tokens already, and store does not change
// it.
func store(path, spent string, answer []byte, now time.Time) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	renewed, err := renewedLogin(content, spent, answer, now)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if renewed == nil {
		return nil
	}
	return replace(path, renewed)
}

// renewedLogin returns the content of an auth.json with the tokens of an answer, or nil if the content
// does not have the spent refresh token. It also sets last_refresh, and keeps all other members.
func renewedLogin(content []byte, spent string, answer []byte, now time.Time) ([]byte, error) {
	var login, tokens, issued map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(content, &login), json.Unmarshal(login["tokens"], &tokens)); err != nil {
		return nil, fmt.Errorf("it has no tokens: %w", err)
	}
	if err := json.Unmarshal(answer, &issued); err != nil {
		return nil, fmt.Errorf("the issuer's answer has no tokens: %w", err)
	}
	var had string
	if json.Unmarshal(tokens["refresh_token"], &had) != nil || had != spent {
		return nil, nil
	}
	for _, name := range []string{"id_token", "access_token", "refresh_token"} {
		var token string
		if json.Unmarshal(issued[name], &token) == nil && token != "" {
			tokens[name] = issued[name]
		}
	}
	var err error
	if login["tokens"], err = json.Marshal(tokens); err != nil {
		return nil, err
	}
	if login["last_refresh"], err = json.Marshal(now.UTC()); err != nil {
		return nil, err
	}
	return json.MarshalIndent(login, "", "  ")
}

// replace replaces a file by one that only its user can read. Even after a crash, the file has
// either the old or the new content.
func replace(path string, content []byte) error {
	made, err := os.CreateTemp(filepath.Dir(path), ".auth-*.json") // 0600
	if err != nil {
		return err
	}
	_, err = made.Write(content)
	err = errors.Join(err, made.Sync(), made.Close())
	if err == nil {
		err = os.Rename(made.Name(), path)
	}
	if err != nil {
		_ = os.Remove(made.Name()) // only the first error is reported
	}
	return err
}
