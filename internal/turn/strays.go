package turn

import "slices"

const (
	// maxStrays is how many responses of a turn may call tools that are not the client's. A model
	// that still does so after that many answers of Codex would go on until its context is full.
	maxStrays = 16
	// maxStrayCalls bounds the calls of tools that are not the client's (stray calls) of which the
	// ids are recorded. The ids are needed to check Codex's answers to these calls. There are
	// hardly ever more.
	maxStrayCalls = 64
)

// strays follows the calls of tools that are not the client's. Codex has to refuse these calls.
type strays struct {
	calls     []string // their ids
	now       bool     // the response under way has such a call
	responses int      // how many responses had such a call
}

// add records a call.
func (s *strays) add(id string) {
	s.now = true
	if len(s.calls) < maxStrayCalls {
		s.calls = append(s.calls, id)
	}
}

// has reports whether an id belongs to a recorded call.
func (s *strays) has(id string) bool { return slices.Contains(s.calls, id) }

// responded records the end of a response that called tools which are not the client's. It reports
// whether another such response may follow.
func (s *strays) responded() bool {
	s.now = false
	s.responses++
	return s.responses < maxStrays
}
