package turn

const (
	// maxStrayResponses is how many responses of a turn may call tools that are not the client's. A
	// model that ignores Codex's refusals would go on until its context is full.
	maxStrayResponses = 16
	// maxStrayCalls bounds the recorded calls of tools that are not the client's (stray calls).
	// Their ids serve to check that Codex refuses these calls. There are hardly ever more.
	maxStrayCalls = 64
)

// strayCalls tracks a turn's calls of tools that are not the client's. Codex has to refuse them.
type strayCalls struct {
	ids        []string // ids of these calls, at most maxStrayCalls
	inResponse bool     // the current model response has such a call, or a call for a picture
	responses  int      // number of responses for which inResponse was true
}
