package appserver

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// Acceptance records which forms of a request the model's provider has accepted or refused over one
// connection. A change of the login empties it: another login may have another provider. It is safe for
// concurrent use.
type Acceptance struct {
	conn *codexrpc.Conn // the connection

	mu                sync.Mutex
	logins            uint64   // conn.LoginChanges() at the last call of lock
	strict            bool     // with at least one model, the provider has refused instructions that replace Codex's prompt
	instructionModels modelSet // models with which the provider has accepted such instructions
	parallelModels    modelSet // lite models (see [Model].Lite) with which several tool calls at a time were accepted
	serialModels      modelSet // lite models with which several tool calls at a time were refused
}

// Acceptance returns the record of what the provider has accepted and refused over the connection.
func (in *Instance) Acceptance() *Acceptance { return &in.acceptance }

// lock locks the record, and returns its mutex. If the login has changed since the last call, lock
// empties the record.
func (a *Acceptance) lock() *sync.Mutex {
	a.mu.Lock()
	if logins := a.conn.LoginChanges(); logins != a.logins {
		a.logins, a.strict, a.instructionModels, a.parallelModels, a.serialModels = logins, false, nil, nil, nil
	}
	return &a.mu
}

// Strict reports whether the provider has refused instructions that replace Codex's prompt, with any model.
func (a *Acceptance) Strict() bool {
	defer a.lock().Unlock()
	return a.strict
}

// Instructions reports whether the provider has accepted such instructions with this model.
func (a *Acceptance) Instructions(model string) bool {
	defer a.lock().Unlock()
	return a.instructionModels[model]
}

// InstructionsAccepted records that the provider has accepted such instructions with this model.
func (a *Acceptance) InstructionsAccepted(model string) {
	defer a.lock().Unlock()
	a.instructionModels.add(model)
}

// InstructionsRefused records that it has refused them. It returns true for the first refusal, of any model.
func (a *Acceptance) InstructionsRefused(model string) (first bool) {
	defer a.lock().Unlock()
	first = !a.strict
	a.strict = true
	delete(a.instructionModels, model)
	return first
}

// ParallelCalls reports whether the provider has accepted, and whether it has refused, requests in
// which this lite model (see [Model].Lite) could call several tools at a time. Codex allows a lite
// model to do so only in a thread that uses the file [Model].Full. Both results are false until the
// provider has answered a request of such a thread.
func (a *Acceptance) ParallelCalls(model string) (accepted, refused bool) {
	defer a.lock().Unlock()
	return a.parallelModels[model], a.serialModels[model]
}

// ParallelCallsAccepted records that parallel calls were accepted, see [Acceptance.ParallelCalls].
func (a *Acceptance) ParallelCallsAccepted(model string) {
	defer a.lock().Unlock()
	a.parallelModels.add(model)
}

// ParallelCallsRefused records that parallel calls were refused, see [Acceptance.ParallelCalls]. It
// returns false if the record already has the model, or cannot store it.
func (a *Acceptance) ParallelCallsRefused(model string) (first bool) {
	defer a.lock().Unlock()
	return a.serialModels.add(model)
}

// SerialModels returns, sorted, the lite models for which parallel calls were refused.
func (a *Acceptance) SerialModels() []string {
	defer a.lock().Unlock()
	return slices.Sorted(maps.Keys(a.serialModels))
}

// maxModelSet bounds the number of names in a modelSet, and maxModelSetName their length in bytes, since
// names may come from clients.
const (
	maxModelSet     = 256
	maxModelSetName = 256
)

type modelSet map[string]bool

// add adds a model, and reports whether it is new and within the bounds.
func (s *modelSet) add(model string) bool {
	if len(model) > maxModelSetName || len(*s) >= maxModelSet || (*s)[model] {
		return false
	}
	if *s == nil {
		*s = make(modelSet)
	}
	(*s)[strings.Clone(model)] = true
	return true
}
