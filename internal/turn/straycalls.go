package turn

import "slices"

const (
	// maxStrayResponses is how many responses of a turn may call tools that are not the client's.
	// Without this limit, a model that ignores Codex's refusals would go on until its context is full.
	maxStrayResponses = 16
	// maxStrayCalls bounds the recorded ids of calls of tools that are not the client's (stray
	// calls). The ids are needed to check Codex's answers to these calls. A turn hardly ever has
	// more such calls.
	maxStrayCalls = 64
)

// strayCalls tracks the calls of tools that are not the client's. Codex has to refuse these calls.
type strayCalls struct {
	ids        []string // ids of these calls, at most maxStrayCalls
	inResponse bool     // the current model response has such a call
	responses  int      // number of responses that had such a call
}

// add records a call.
func (s *strayCalls) add(id string) {
	s.inResponse = true
	if len(s.ids) < maxStrayCalls {
		s.ids = append(s.ids, id)
	}
}

// has reports whether an id belongs to a recorded call.
func (s *strayCalls) has(id string) bool { return slices.Contains(s.ids, id) }

// endResponse records the end of a response that had stray calls. It reports whether another such
// response may follow.
func (s *strayCalls) endResponse() bool {
	s.inResponse = false
	s.responses++
	return s.responses < maxStrayResponses
}
