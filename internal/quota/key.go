// Package quota counts what the keys of the API have used, and limits it.
//
// The limits of a key count for this key alone, whoever its user is. A [Ledger] has the
// counts of all keys. A key whose limits or whose user change keeps its counts.
package quota

import "slices"

// Unit is what a limit counts.
type Unit string

// The units.
const (
	Requests Unit = "requests"
	Tokens   Unit = "tokens" // of the input and the output
)

// Limit allows Max of a unit in a window.
type Limit struct {
	Unit   Unit
	Max    int64 // above 0
	Window Window
}

// Key is whom the limits of a key apply to, and what they are.
type Key struct {
	ID            string   // names the key in its file, in lists and logs
	Account       string   // identifies its counts, at all nodes
	User          string   // whose key it is; several keys may have the same user
	Models        []string // the models that it may use, as clients name them; nil: all
	MaxConcurrent int      // turns at once; 0: no limit
	Limits        []Limit  // no two of the same unit and window
}

// Allows reports whether the key may use a model.
func (k *Key) Allows(model string) bool {
	return k == nil || k.Models == nil || slices.Contains(k.Models, model)
}

// limits reports whether the key has a limit of a unit.
func (k *Key) limits(unit Unit) bool {
	return k != nil && slices.ContainsFunc(k.Limits, func(l Limit) bool { return l.Unit == unit })
}
