package conversation

import (
	"fmt"
	"maps"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// Identity is what all requests of a conversation have in common, besides the messages. Requests
// with different Identities belong to different conversations.
type Identity struct {
	// Site and User identify the owner. The same User at another Site is another owner.
	Site, User string
	// Thread has the parameters of thread/start: model, instructions, tools and configuration.
	Thread codexrpc.ThreadStartParams
	// EffortMayVary is true if each turn of the conversation may have its own reasoning effort.
	// Even then, requests with an effort and requests without one belong to different
	// conversations, because a thread that has an effort cannot return to the model's default.
	EffortMayVary bool
}

// hash returns the hash with which a [Chain] begins. It fails if the parameters cannot be encoded.
func (id *Identity) hash() (Hash, error) {
	// Settings that all threads share do not distinguish them, and are usually the longest.
	params := id.Thread
	params.Config.Fixed = ""
	if id.EffortMayVary && params.Config.Effort() != "" {
		params.Config.Own = maps.Clone(params.Config.Own)
		params.Config.Own[codexrpc.EffortSetting] = true // in place of the effort, whichever it is
	}
	d := newDigest()
	d.field(id.Site)
	d.field(id.User)
	if err := d.threadParams(&params); err != nil {
		return Hash{}, fmt.Errorf("writing the parameters of a thread: %w", err)
	}
	return d.sum(), nil
}
