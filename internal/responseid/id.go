// Package responseid makes and reads the ids of responses and of their items.
package responseid

import (
	"crypto/rand"
	"strconv"
	"strings"
	"time"
)

// Prefix begins the id of every response. A suffix follows: the time at which the id was made, and
// random characters, all of them lower-case letters and digits. So an id can be part of a path. The
// alphabetical order of ids is the order of their times, so a list of ids shows which are too old.
const Prefix = "resp_"

// ConversationPrefix begins the id of every conversation, in the place of [Prefix].
const ConversationPrefix = "conv_"

const (
	suffixLength = 26
	stampLength  = 7 // of them for the time: enough for a thousand years
)

// base is the base of the number for the time. The order of its digits is that of their values.
const base = 32

// NewSuffix returns the suffix of a new id, with 95 random bits.
func NewSuffix(now time.Time) string {
	return stamp(now) + strings.ToLower(rand.Text()[:suffixLength-stampLength])
}

// stamp returns a time in seconds, with leading zeros.
func stamp(at time.Time) string {
	const one = 1 << (5 * stampLength) // the digit before the stamp
	return strconv.FormatInt(one+max(0, at.Unix()), base)[1:]
}

// Time returns the time at which an id was made, in seconds. It reports false if the
// id has another form.
func Time(id string) (time.Time, bool) {
	if !Valid(id) && !ValidConversation(id) {
		return time.Time{}, false
	}
	n, err := strconv.ParseInt(id[len(Prefix):][:stampLength], base, 64)
	return time.Unix(n, 0), err == nil
}

// Valid reports whether a text has the form of a response's id.
func Valid(id string) bool {
	suffix, ok := strings.CutPrefix(id, Prefix)
	return ok && isSuffix(suffix)
}

// ValidConversation reports whether a text has the form of a conversation's id.
func ValidConversation(id string) bool {
	suffix, ok := strings.CutPrefix(id, ConversationPrefix)
	return ok && isSuffix(suffix)
}

func isSuffix(s string) bool {
	return len(s) == suffixLength && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

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
// nothing was appended, or if the id has another form.
func Source(id string) (source string, ok bool) {
	parts := strings.SplitN(id, "_", 4)
	if len(parts) < 4 || !isSuffix(parts[1]) || !isNumber(parts[2]) {
		return "", false
	}
	return parts[3], true
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
