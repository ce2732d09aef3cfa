package aggregator

import "strconv"

const (
	// DefaultMaxCalls is the default of WithMaxCalls.
	DefaultMaxCalls = 1024
	// DefaultMaxArgumentBytes is the default of WithMaxArgumentBytes.
	DefaultMaxArgumentBytes = 64 << 20
	// MaxChoices is the number of choices that an Aggregator keeps apart: the most
	// that OpenAI's n allows.
	MaxChoices = 128

	// maxNameBytes bounds the length of names and ids. Codex allows names of 128
	// characters.
	maxNameBytes = 4 << 10
	// maxUnseen bounds the calls of a choice that wait for their names, or were dropped.
	maxUnseen = 256
	// maxIDBytes bounds the bytes of names and ids that a choice keeps. Those of 1,024 calls have
	// some 100 KiB.
	maxIDBytes = 1 << 20
)

// Option sets up an Aggregator in New.
type Option func(*config)

type config struct {
	maxCalls int
	maxBytes int
	suffix   string
}

// WithIDSuffix sets the suffix of every [CallID], which the caller makes random so that the
// ids of the turns of one conversation differ. Default: none.
func WithIDSuffix(suffix string) Option {
	return func(c *config) { c.suffix = suffix }
}

// WithMaxCalls limits the calls of a choice. Further ones are ignored with all their
// fragments and counted in Stats.OverLimit. Values below 1 mean DefaultMaxCalls.
func WithMaxCalls(n int) Option {
	return func(c *config) { c.maxCalls = n }
}

// WithMaxArgumentBytes limits the bytes of arguments that a choice holds, over all its
// calls. A call that meets the limit keeps the bytes that had room, gets no more, and is
// marked Truncated. Values below 1 mean DefaultMaxArgumentBytes.
func WithMaxArgumentBytes(n int) Option {
	return func(c *config) { c.maxBytes = n }
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

// MessageOption changes how IngestMessage reads a message.
type MessageOption func(*ingestOptions)

// SynthesizeCalls makes calls of the blocks in a message's text, by every
// registered text pattern. A block that is the twin of a structured call, with the same tool and
// the same arguments, is that call. A block is identified by its message's id and its place in
// the text, so that the same message again, or more of it, adds no call twice. Each of several
// identical blocks is a call.
func SynthesizeCalls() MessageOption {
	return func(o *ingestOptions) { o.synthesize = true }
}
