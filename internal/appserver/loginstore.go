package appserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// storeLogin puts the tokens of an answer into the file of a login, as Codex itself does.
// spentToken is the refresh token that the issuer has just exchanged for the new tokens. If the
// file has another refresh token, its tokens are newer, and storeLogin does not change the file.
func storeLogin(path, spentToken string, answer []byte, now time.Time) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	renewed, err := renewedLogin(content, spentToken, answer, now)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if renewed == nil {
		return nil
	}
	return replaceFile(path, renewed)
}

// renewedLogin returns an auth.json with an answer's tokens and a new last_refresh, all else
// unchanged, or nil if the refresh token in content is not spentToken.
func renewedLogin(content []byte, spentToken string, answer []byte, now time.Time) ([]byte, error) {
	var login, tokens, issued map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(content, &login), json.Unmarshal(login["tokens"], &tokens)); err != nil {
		return nil, fmt.Errorf("it has no tokens: %w", err)
	}
	if err := json.Unmarshal(answer, &issued); err != nil {
		return nil, fmt.Errorf("the issuer's answer has no tokens: %w", err)
	}
	var currentToken string
	if json.Unmarshal(tokens["refresh_token"], &currentToken) != nil || currentToken != spentToken {
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

// replaceFile replaces a file by one that only its user can read. Even after a crash, the file has
// either the old or the new content.
func replaceFile(path string, content []byte) error {
	tempFile, err := os.CreateTemp(filepath.Dir(path), ".auth-*.json") // 0600
	if err != nil {
		return err
	}
	_, err = tempFile.Write(content)
	err = errors.Join(err, tempFile.Sync(), tempFile.Close())
	if err == nil {
		err = os.Rename(tempFile.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tempFile.Name()) // only the first error is reported
	}
	return err
}
