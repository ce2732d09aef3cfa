package aggregator

import "strconv"

const (
	// DefaultMaxCalls is the default of [Options].MaxCalls.
	DefaultMaxCalls = 1024
	// DefaultMaxArgumentBytes is the default of [Options].MaxArgumentBytes.
	DefaultMaxArgumentBytes = 64 << 20
	// MaxChoices is the most choices that an Aggregator has. OpenAI allows no more: 128 is its
	// maximum for n, the number of choices of a request.
	MaxChoices = 128

	// maxNameBytes bounds the length of names and ids. Codex allows names of 128
	// characters.
	maxNameBytes = 4 << 10
	// maxKeyBytes bounds what a choice keeps of names, ids and places, in bytes. An id and a place also
	// count keySize bytes, for their entries in maps and their share of the call. So 1,024 calls with four
	// ids and places each need some 1.2 MiB.
	maxKeyBytes = 2 << 20
	keySize     = 256
)

// Options are the options of an [Aggregator]. The zero value has the defaults.
type Options struct {
	// IDSuffix ends every [CallID]. With a random suffix, the ids of different turns of one
	// conversation differ. Empty: no suffix.
	IDSuffix string
	// MaxCalls is the most calls of a choice. Further calls are ignored with all their
	// fragments, and counted in Stats.OverLimit. Below 1: DefaultMaxCalls.
	MaxCalls int
	// MaxArgumentBytes is the most bytes of arguments that a choice holds, over all its calls. If a
	// call exceeds the limit, its arguments are cut at the limit. The call then gets no further
	// bytes, and is marked Truncated. Below 1: DefaultMaxArgumentBytes.
	MaxArgumentBytes int
}

// callPrefix begins the id of each call.
const callPrefix = "tool_"

// CallID builds the id of a call: tool_<choice>_<ordinal>, and _<suffix> if there is
// one.
func CallID(choice, ordinal int, suffix string) string {
	id := callPrefix + strconv.Itoa(choice) + "_" + strconv.Itoa(ordinal)
	if suffix != "" {
		id += "_" + suffix
	}
	return id
}
