package storagecall

import (
	"context"
	"errors"
	"io/fs"
)

// Lister is what List needs of Caddy's storage.
type Lister interface {
	List(ctx context.Context, prefix string, recursive bool) ([]string, error)
	Exists(ctx context.Context, key string) bool
}

// maxListings is how often a listing is begun.
const maxListings = 20

var errChanging = errors.New("the folder changes too often to be listed")

// List returns the keys in a folder; none if there is no such folder. Caddy's storage in files
// ends a listing early, as if there were none, when a file vanishes meanwhile, such as the
// temporary one of an entry that is being written. It is then listed again.
func List(ctx context.Context, storage Lister, folder string) ([]string, error) {
	for range maxListings {
		keys, err := storage.List(ctx, folder, false)
		switch {
		case !errors.Is(err, fs.ErrNotExist):
			return keys, err
		case !storage.Exists(ctx, folder):
			return nil, nil
		}
	}
	return nil, errChanging
}
