package appserver

import "strings"

// The bounds of a modelSet: the number of models, and the length of a name, which may come
// from a client.
const (
	maxModelSet     = 256
	maxModelSetName = 256
)

// modelSet is a bounded set of the names of models. The zero value is empty.
type modelSet map[string]bool

// add adds a model, unless the set is full or the name too long. It reports whether the model
// is in the set now and was not before.
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
