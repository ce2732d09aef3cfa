//go:build !unix

package apikeys

import "os"

// adoptOwner does nothing: a file has the rights of its directory here.
func adoptOwner(string, *os.File) error { return nil }

// keepOwner does nothing: a file has the rights of its directory here.
func keepOwner(string, *os.File) error { return nil }
