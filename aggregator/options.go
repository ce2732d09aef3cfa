package aggregator

import "strconv"

const (
	// DefaultMaxCalls is the default of [Options].MaxCalls.
	DefaultMaxCalls = 1024
	// DefaultMaxArgumentBytes is the default of [Options].MaxArgumentBytes.
	DefaultMaxArgumentBytes = 64 << 20
	// MaxChoices is the most choices of an Aggregator, as OpenAI's maximum of n in a request.
	MaxChoices = 128

	// maxNameBytes bounds names and ids. Codex allows names of 128 characters.
	maxNameBytes = 4 << 10
	// maxKeyBytes bounds a choice's names, ids and places, in bytes. Each id or place counts keySize more,
	// for entries in maps and a share of the call. 1,024 calls, with four ids or places each, need 1.2 MiB.
	maxKeyBytes = 2 << 20
	keySize     = 256
)

// Options are the options of an [Aggregator] and of each [Choice]. The zero value has the defaults.
type Options struct {
	// IDSuffix ends every [CallID]; empty: none. If it is random, the ids of a conversation's turns differ.
	IDSuffix string
	// MaxCalls is the most calls of a choice. Further calls are ignored with all their
	// fragments, and counted in Stats.OverLimit. Below 1: DefaultMaxCalls.
	MaxCalls int
	// MaxArgumentBytes bounds the arguments of a choice's calls together. A call that would exceed the bound
	// is cut, gets no further bytes, and is marked Truncated. Below 1: DefaultMaxArgumentBytes.
	MaxArgumentBytes int
}

// callPrefix begins the id of each call.
const callPrefix = "tool_"

// CallID builds the id of a call: tool_<choice>_<ordinal>, and _<suffix> unless it is empty.
func CallID(choice, ordinal int, suffix string) string {
	id := callPrefix + strconv.Itoa(choice) + "_" + strconv.Itoa(ordinal)
	if suffix != "" {
		id += "_" + suffix
	}
	return id
}
