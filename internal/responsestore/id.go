package responsestore

import (
	"crypto/rand"
	"strings"
	"time"
)

// The form of an id: a prefix, the time at which it was made, and random
// characters. All are letters and digits, so that an id can be part of a path,
// and ids in their alphabetical order are in that of their times: a list of them
// tells which are too old.
const (
	idPrefix    = "resp_"
	idLength    = 26 // without the prefix
	stampLength = 7  // of them for the time: enough for a thousand years
)

// digits are those of a stamp, in the order of their values.
const digits = "0123456789abcdefghijklmnopqrstuv"

// NewSuffix returns what follows the prefix of a new id, with 95 random bits.
func NewSuffix(now time.Time) string {
	return stamp(now) + strings.ToLower(rand.Text()[:idLength-stampLength])
}

// stamp is a time in seconds, in digits.
func stamp(at time.Time) string {
	var s [stampLength]byte
	n := max(0, at.Unix())
	for i := range s {
		s[stampLength-1-i] = digits[n%int64(len(digits))]
		n /= int64(len(digits))
	}
	return string(s[:])
}

// made tells when an id was made; false: it is none of ours.
func made(id string) (time.Time, bool) {
	if !ValidID(id) {
		return time.Time{}, false
	}
	var n int64
	for _, b := range []byte(id[len(idPrefix):][:stampLength]) {
		value := strings.IndexByte(digits, b)
		if value < 0 {
			return time.Time{}, false
		}
		n = n*int64(len(digits)) + int64(value)
	}
	return time.Unix(n, 0), true
}

// ValidID reports whether a text has the form of a response's id.
func ValidID(id string) bool {
	if len(id) != len(idPrefix)+idLength || id[:len(idPrefix)] != idPrefix {
		return false
	}
	for _, b := range []byte(id[len(idPrefix):]) {
		if (b < 'a' || b > 'z') && (b < '0' || b > '9') {
			return false
		}
	}
	return true
}
