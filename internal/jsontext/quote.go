package jsontext

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Quote writes a JSON string without the escapes that only HTML needs.
func Quote(s string) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	// A string always encodes: bytes that are no UTF-8 become U+FFFD.
	_ = enc.Encode(s)
	return strings.TrimSuffix(out.String(), "\n")
}
