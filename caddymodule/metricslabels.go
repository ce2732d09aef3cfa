package caddymodule

import (
	"strings"
	"sync"
)

const (
	// maxModelLabels bounds the models that metrics tell apart.
	maxModelLabels = 50
	// otherModel stands for all others.
	otherModel = "other"
)

// modelLabels are the models that metrics know by name. A model that a client
// made up is not among them.
var modelLabels = labels{limit: maxModelLabels}

// labels is a bounded set of values for a label. A value that is in it stays,
// as metrics do.
type labels struct {
	limit int
	mu    sync.RWMutex
	known map[string]bool
}

// add adds values while there is room.
func (l *labels) add(values ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, value := range values {
		if len(l.known) >= l.limit {
			return
		}
		if l.known == nil {
			l.known = make(map[string]bool)
		}
		l.known[strings.ToValidUTF8(value, "")] = true
	}
}

// of is the label for a value: itself or "other".
func (l *labels) of(value string) string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.known[value] {
		return value
	}
	return otherModel
}
