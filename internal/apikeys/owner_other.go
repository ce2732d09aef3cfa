//go:build !unix

package apikeys

import "os"

// adoptOwner does nothing: on these systems, a file has the rights of its directory.
func adoptOwner(string, *os.File) error { return nil }

// keepOwner does nothing: on these systems, a file has the rights of its directory.
func keepOwner(string, *os.File) error { return nil }

// OnlyRootReads returns false: these systems have no user root.
func OnlyRootReads(string) bool { return false }
