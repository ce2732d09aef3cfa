package usage

import (
	"time"

	"github.com/caddy-codex/caddy-codex/internal/storedbook"
)

// saveInterval is how often a changed book is stored.
const saveInterval = time.Minute

// Place is where a book is stored.
type Place = storedbook.Place

// NewKeeper returns a keeper of a book.
func NewKeeper(b *Book) *storedbook.Keeper {
	return storedbook.NewKeeper(kept{b}, "the usage", saveInterval)
}

// kept is a book as a keeper sees it.
type kept struct{ *Book }

// Document implements [storedbook.Book].
func (k kept) Document() (any, uint64) { return k.document() }

// Changes implements [storedbook.Book].
func (k kept) Changes() uint64 { return k.changed() }

// Restore implements [storedbook.Book].
func (k kept) Restore(content []byte) error {
	d, err := decode(content)
	if err == nil {
		k.restore(d)
	}
	return err
}

// Owns implements [storedbook.Book].
func (k kept) Owns(content []byte) (bool, error) {
	d, err := decode(content)
	return err == nil && d.ID == k.id, err
}
