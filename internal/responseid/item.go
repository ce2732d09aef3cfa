package responseid

import "strings"

// Item returns the id of an item: KIND_SUFFIX_PLACE. It names the item's response, by
// the suffix, and its place there.
func Item(kind, suffix, place string) string { return kind + "_" + suffix + "_" + place }

// WithSource appends the provider's own id of an item to ours. The encrypted content
// of reasoning can only be read beside it.
func WithSource(id, source string) string {
	if source == "" {
		return id
	}
	return id + "_" + source
}

// OfItem returns the id of an item's response. It reports false if the item's id has
// another form.
func OfItem(id string) (response string, ok bool) {
	parts := strings.SplitN(id, "_", 4)
	if len(parts) < 3 || !isSuffix(parts[1]) {
		return "", false
	}
	return Prefix + parts[1], true
}

// Source returns what WithSource has appended to an item's id. It reports false if
// that is nothing, or if the id has another form.
func Source(id string) (source string, ok bool) {
	parts := strings.SplitN(id, "_", 4)
	if len(parts) < 4 || !isSuffix(parts[1]) || !isNumber(parts[2]) {
		return "", false
	}
	return parts[3], true
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
