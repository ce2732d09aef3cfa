// Package quota counts what the keys of the API have used, and limits it.
package quota

import "slices"

// Key is whom the limits of a key apply to, and what they are.
type Key struct {
	ID     string   // identifies the key in counts, lists and logs; unique
	User   string   // whose key it is; several keys may have the same user
	Models []string // the models that it may use, as clients name them; nil: all
}

// Allows reports whether the key may use a model.
func (k *Key) Allows(model string) bool {
	return k == nil || k.Models == nil || slices.Contains(k.Models, model)
}
