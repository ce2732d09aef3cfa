package codexrpc

import (
	"cmp"
	"fmt"
	"regexp"
)

// newestTested is the newest release of Codex that all tests have passed with, oldestSupported the one two
// minor releases before. Patches of a release are not told apart.
const (
	newestTested    = "0.171"
	oldestSupported = "0.169"
)

// UnknownVersion stands for a version that cannot be parsed.
const UnknownVersion = "unknown"

// Untested says why Codex may not behave as tested with this version; empty: the release was tested.
func Untested(version string) string {
	order, err := compareReleases(version, newestTested)
	switch {
	case err != nil:
		return "the version of Codex is unknown; the newest one that was tested is " + newestTested
	case order > 0:
		return "Codex " + version + " is newer than what was tested (" + newestTested + ")"
	}
	return ""
}

// compareReleases compares two versions without their patches.
func compareReleases(a, b string) (int, error) {
	var majorA, minorA, majorB, minorB int
	if _, err := fmt.Sscanf(a, "%d.%d", &majorA, &minorA); err != nil {
		return 0, err
	}
	_, err := fmt.Sscanf(b, "%d.%d", &majorB, &minorB)
	return cmp.Or(cmp.Compare(majorA, majorB), cmp.Compare(minorA, minorB)), err
}

var userAgentPattern = regexp.MustCompile(`/(\d+\.\d+\.\d+)`)

// supportedVersion returns the version in a user agent "name/0.171.0 (…)", with an error if it is too old.
func supportedVersion(userAgent string) (string, error) {
	match := userAgentPattern.FindStringSubmatch(userAgent)
	if match == nil {
		return UnknownVersion, nil
	}
	version := match[1]
	if order, err := compareReleases(version, oldestSupported); err == nil && order < 0 {
		return version, fmt.Errorf("codex %s %w: %s.0 or newer is needed (npm install -g @openai/codex)", version, ErrTooOld, oldestSupported)
	}
	return version, nil
}
