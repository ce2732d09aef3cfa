package storagecall

import (
	"context"
	"fmt"
	"io/fs"
	"testing"
)

// folder is a storage of which some listings end early.
type folder struct {
	early  int
	exists bool
}

func (f *folder) List(context.Context, string, bool) ([]string, error) {
	if !f.exists {
		return nil, fs.ErrNotExist
	}
	if f.early--; f.early >= 0 {
		return []string{"a"}, fmt.Errorf("lstat: %w", fs.ErrNotExist)
	}
	return []string{"a", "b"}, nil
}

func (f *folder) Exists(context.Context, string) bool { return f.exists }

// TestList checks that what a listing finds before it ends early does not pass for all.
func TestList(t *testing.T) {
	for name, test := range map[string]struct {
		folder
		keys int
		err  error
	}{
		"whole":         {folder{0, true}, 2, nil},
		"early at last": {folder{maxListings - 1, true}, 2, nil},
		"always early":  {folder{maxListings, true}, 0, errChanging},
		"no folder":     {folder{0, false}, 0, nil},
	} {
		if keys, err := List(t.Context(), &test.folder, "f"); len(keys) != test.keys || err != test.err {
			t.Errorf("%s: %q, %v", name, keys, err)
		}
	}
}
