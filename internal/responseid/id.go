// Package responseid makes and reads the ids of responses and of their items.
package responseid

import (
	"crypto/rand"
	"strconv"
	"strings"
	"time"
)

// Prefix begins the id of every response. A suffix follows: the time at which the id was made, and
// then random characters. The suffix has only lower-case letters and digits, so that an id can be a
// part of a path. The alphabetical order of ids is the order of their times. So a sorted list of
// ids shows which ones are too old.
const Prefix = "resp_"

// ConversationPrefix begins the id of every conversation, instead of [Prefix].
const ConversationPrefix = "conv_"

const (
	suffixLength = 26 // characters of a suffix
	stampLength  = 7  // how many of these characters are the time; 7 are enough for a thousand years
)

// base is the number base of the time in an id. In this base, the alphabetical order of the digits
// is the order of their values, so ids are ordered like their times.
const base = 32

// NewSuffix returns the suffix of a new id, with 95 random bits.
func NewSuffix(now time.Time) string {
	return stamp(now) + strings.ToLower(rand.Text()[:suffixLength-stampLength])
}

// stamp returns a time as a number of seconds, with leading zeros.
func stamp(at time.Time) string {
	const one = 1 << (5 * stampLength) // adds a digit before the stamp, so that leading zeros are written; [1:] cuts the digit off
	return strconv.FormatInt(one+max(0, at.Unix()), base)[1:]
}

// Time returns the time at which an id was made, to the second. If the id is not that of a response
// or a conversation, Time returns false.
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

// Item returns the id of an item, which has the form kind_suffix_place. suffix is the suffix of the
// id of the item's response. place identifies the item in the response, such as 3 in the output or
// i3 in the input.
func Item(kind, suffix, place string) string { return kind + "_" + suffix + "_" + place }

// WithSource appends source, the provider's own id of an item, to the id that this server has given
// to the item. If source is empty, WithSource returns id unchanged. The provider can read the
// encrypted content of reasoning only together with the provider's own id.
func WithSource(id, source string) string {
	if source == "" {
		return id
	}
	return id + "_" + source
}

// OfItem returns the id of the response to which an item belongs. If id does not have a form that
// [Item] or [WithSource] makes, OfItem returns false.
func OfItem(id string) (response string, ok bool) {
	parts := strings.SplitN(id, "_", 4)
	if len(parts) < 3 || !isSuffix(parts[1]) {
		return "", false
	}
	return Prefix + parts[1], true
}

// Source returns the provider's own id that [WithSource] has appended to the id of an output item. If
// [WithSource] has appended nothing to id, Source returns false.
func Source(id string) (source string, ok bool) {
	parts := strings.SplitN(id, "_", 4)
	if len(parts) < 4 || !isSuffix(parts[1]) || !isNumber(parts[2]) {
		return "", false
	}
	return parts[3], true
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
