package usetool

import (
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// ActionKey names what a call does; see [Action].
type ActionKey [sha256.Size]byte

// Action returns a key that is equal for two calls if they do the same: they
// call the same tool with the same arguments, whatever form the calls came in.
// A model that writes a <use_tool> block and makes the same call as a
// structured one means one action. The order of the arguments, their white
// space and null ones do not count, and neither do aliases of the canon, nor
// whether a number stands as a number or, as in every block, as text.
// Arguments that are not a JSON object are compared as they are.
func Action(name, arguments string) ActionKey {
	hash := sha256.New()
	field := func(text string) {
		// With its length before it, no text reads as two. Writing to a hash never
		// fails.
		_, _ = fmt.Fprintf(hash, "%d:", len(text))
		_, _ = io.WriteString(hash, text)
	}
	field(name)
	params, err := Shape(name, arguments)
	if err != nil {
		field(strings.TrimSpace(arguments))
		return ActionKey(hash.Sum(nil))
	}
	slices.SortFunc(params, func(a, b Param) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range params {
		if p.Value != "null" {
			field(p.Name)
			field(plainValue(p.Value))
		}
	}
	return ActionKey(hash.Sum(nil))
}

// plainValue returns a raw JSON value as it stands in a block.
func plainValue(raw string) string {
	if text, ok := jsontext.AsString(raw); ok {
		raw = strings.TrimSpace(text.String())
	}
	if isJSONContainer(raw) {
		return compactJSON(raw)
	}
	return raw
}
