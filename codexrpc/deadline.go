package codexrpc

import (
	"errors"
	"os"
)

// isNoDeadline reports whether err says that a file has no deadlines, as
// regular files and some operating systems' pipes have none.
func isNoDeadline(err error) bool { return errors.Is(err, os.ErrNoDeadline) }
