package conversation

import (
	"fmt"
	"maps"
	"sync"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// Identity is what all requests of a conversation have in common besides the messages. If any part
// of the Identity differs, a request belongs to another conversation.
type Identity struct {
	// Site and User identify the owner of the conversation. At another site, the same name is
	// another user.
	Site, User string
	// Thread are the parameters of thread/start: model, instructions, tools and
	// configuration.
	Thread codexrpc.ThreadStartParams
	// EffortMayVary is true if each turn of the conversation may have another reasoning effort. But a
	// request without an effort belongs to another conversation than requests with one, since a
	// thread that has an effort cannot return to the default.
	EffortMayVary bool
}

// parameterBuffers is a pool of buffers for the encoded parameters of threads. Its elements are *[]byte.
var parameterBuffers = sync.Pool{New: func() any { return new(make([]byte, 0, 4<<10)) }}

// maxParameterBuffer bounds the buffers that go back to the pool parameterBuffers, in bytes.
const maxParameterBuffer = 64 << 10

// hash returns the first hash in the chain of the conversation. It fails if the parameters cannot
// be encoded as JSON.
func (id *Identity) hash() (Hash, error) {
	// Leave out the settings that all threads share. They do not distinguish threads, and are
	// usually longer than all other settings.
	params := id.Thread
	params.Config.Fixed = ""
	if id.EffortMayVary && params.Config.Effort() != "" {
		params.Config.Own = maps.Clone(params.Config.Own)
		params.Config.Own[codexrpc.EffortSetting] = true
	}
	buffer := parameterBuffers.Get().(*[]byte)
	thread, err := params.AppendJSON((*buffer)[:0])
	if err != nil {
		return Hash{}, fmt.Errorf("writing the parameters of a thread: %w", err)
	}
	if cap(thread) <= maxParameterBuffer {
		*buffer = thread
		defer parameterBuffers.Put(buffer)
	}
	d := newDigest()
	d.field(id.Site)
	d.field(id.User)
	d.bytes(thread)
	return d.sum(), nil
}
