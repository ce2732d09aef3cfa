package codexrpc

import (
	"fmt"
	"regexp"
	"slices"
)

// newestTested is the newest release of Codex that all tests have passed with, oldestSupported the one two
// minor releases before. Patches of a release are not told apart.
const (
	newestTested    = "0.171"
	oldestSupported = "0.169"
)

// UnknownVersion stands for a version that cannot be parsed.
const UnknownVersion = "unknown"

// Untested says if Codex is newer than what was tested; empty: it is not, or its version is unknown.
func Untested(version string) string {
	if !isOlder(newestTested, version) {
		return ""
	}
	return "Codex " + version + " is newer than what was tested (" + newestTested + ")"
}

// isOlder compares versions without their patches. It is false if one cannot be read.
func isOlder(version, than string) bool {
	var a, b [2]int
	_, errA := fmt.Sscanf(version, "%d.%d", &a[0], &a[1])
	_, errB := fmt.Sscanf(than, "%d.%d", &b[0], &b[1])
	return errA == nil && errB == nil && slices.Compare(a[:], b[:]) < 0
}

var userAgentPattern = regexp.MustCompile(`/(\d+\.\d+\.\d+)`)

// supportedVersion returns the version in a user agent "name/0.171.0 (…)", with an error if it is too old.
func supportedVersion(userAgent string) (string, error) {
	match := userAgentPattern.FindStringSubmatch(userAgent)
	if match == nil {
		return UnknownVersion, nil
	}
	if isOlder(match[1], oldestSupported) {
		return match[1], fmt.Errorf("codex %s %w: %s.0 or newer is needed (npm install -g @openai/codex)", match[1], ErrTooOld, oldestSupported)
	}
	return match[1], nil
}
