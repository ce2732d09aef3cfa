package scriptedmodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// useToolBlock returns a call as text, in the form of Obsidian Copilot: a tag for each parameter of
// the JSON object, with strings as they are and everything else as JSON.
func useToolBlock(name string, arguments []byte) (string, error) {
	d := json.NewDecoder(bytes.NewReader(arguments))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return "", errors.New("want a JSON object of parameters")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<use_tool>\n<name>%s</name>\n", name)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return "", fmt.Errorf("read the parameters: %w", err)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return "", fmt.Errorf("read the parameter %v: %w", key, err)
		}
		value := string(raw)
		if bytes.HasPrefix(raw, []byte{'"'}) {
			if err := json.Unmarshal(raw, &value); err != nil {
				return "", fmt.Errorf("read the parameter %v: %w", key, err)
			}
		}
		fmt.Fprintf(&b, "<%s>%s</%s>\n", key, value, key)
	}
	if _, err := d.Token(); err != nil {
		return "", fmt.Errorf("read the parameters: %w", err)
	}
	b.WriteString("</use_tool>")
	return b.String(), nil
}
