package responses

import "strings"

// The id of an item names its response and its place there:
// PREFIX_SUFFIX_PLACE. That of a reasoning goes on with the provider's own id,
// beside which alone the encrypted content can be read.

// itemID makes the id of an item of a response.
func itemID(prefix, suffix, place string) string { return prefix + "_" + suffix + "_" + place }

// sourceID adds the provider's id to that of an item.
func sourceID(id, source string) string {
	if source == "" {
		return id
	}
	return id + "_" + source
}

// OfItem returns the id of the response that an item is of; false: the
// id is none of ours.
func OfItem(id string) (string, bool) {
	parts := strings.SplitN(id, "_", 4)
	if len(parts) < 3 {
		return "", false
	}
	return IDPrefix + parts[1], true
}

// sourceOf returns the provider's id in that of an item of ours.
func sourceOf(id string) (string, bool) {
	parts := strings.SplitN(id, "_", 4)
	if len(parts) < 4 || len(parts[1]) != suffixLength || !isNumber(parts[2]) {
		return "", false
	}
	return parts[3], true
}

// suffixLength is the length of the suffix of a response's id.
const suffixLength = 26

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
