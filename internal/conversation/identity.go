package conversation

import (
	"fmt"
	"maps"
	"sync"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// Identity is what all requests of a conversation have in common besides its messages. If any part
// of it changes, another conversation begins.
type Identity struct {
	// Site and User identify the owner of the conversation. The same name at two sites is two
	// users.
	Site, User string
	// Thread are the parameters of thread/start: model, instructions, tools and
	// configuration.
	Thread codexrpc.ThreadStartParams
	// AnyEffort says that the model may have another effort in each turn of the conversation. A
	// request without an effort belongs to another conversation: an effort cannot be taken back.
	AnyEffort bool
}

// parameters has buffers for the parameters of threads, *[]byte.
var parameters = sync.Pool{New: func() any { return new(make([]byte, 0, 4<<10)) }}

// maxParameters is the size of the largest buffers that are used again, in bytes.
const maxParameters = 64 << 10

// hash returns the hash with which the chain of the conversation begins. It fails if the parameters
// cannot be written as JSON.
func (id *Identity) hash() (Hash, error) {
	// Leave out the settings that all threads share: they do not tell threads apart, and for most
	// threads they are longer than all others.
	own := id.Thread
	own.Config.Fixed = ""
	if id.AnyEffort && own.Config.Effort() != "" {
		own.Config.Own = maps.Clone(own.Config.Own)
		own.Config.Own[codexrpc.EffortSetting] = true
	}
	buffer := parameters.Get().(*[]byte)
	thread, err := own.AppendJSON((*buffer)[:0])
	if err != nil {
		return Hash{}, fmt.Errorf("writing the parameters of a thread: %w", err)
	}
	if cap(thread) <= maxParameters {
		*buffer = thread
		defer parameters.Put(buffer)
	}
	d := newDigest()
	d.field(id.Site)
	d.field(id.User)
	d.bytes(thread)
	return d.sum(), nil
}
