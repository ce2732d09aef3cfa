package turn

import "slices"

const (
	// maxStrayResponses is how many responses of a turn may call tools that are not the client's.
	// Without this limit, a model that ignores Codex's refusals would go on until its context is
	// full.
	maxStrayResponses = 16
	// maxStrayCalls bounds how many calls of tools that are not the client's (stray calls) are
	// recorded. Their ids are needed to check Codex's answers. A turn hardly ever has more stray
	// calls.
	maxStrayCalls = 64
)

// strayCalls tracks the stray calls of a turn: calls of tools that are not the client's. Codex has
// to refuse these calls.
type strayCalls struct {
	ids        []string // ids of these calls, at most maxStrayCalls
	inResponse bool     // the current model response has such a call, or a call for a picture
	responses  int      // number of responses for which inResponse was true
}

func (s *strayCalls) add(id string) {
	s.inResponse = true
	if len(s.ids) < maxStrayCalls {
		s.ids = append(s.ids, id)
	}
}

func (s *strayCalls) has(id string) bool { return slices.Contains(s.ids, id) }

// endResponse records the end of a response for which inResponse was true. It reports whether
// another such response may follow.
func (s *strayCalls) endResponse() bool {
	s.inResponse = false
	s.responses++
	return s.responses < maxStrayResponses
}
