//go:build !unix || aix || solaris

package appserver

import "os"

// lockPrivate returns no lock: there is no flock here.
func lockPrivate(string) (*os.File, error) { return nil, nil }

// removeAbandoned removes nothing: without locks the directory of a killed program
// looks like that of a running one.
func removeAbandoned(string) bool { return false }
