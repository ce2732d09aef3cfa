// Package page has the files of the page for people and serves them.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"time"
)

// index is the file of the page itself.
const index = "index.html"

//go:embed files
var embedded embed.FS

// file is a file as it is served.
type file struct {
	body []byte
	kind string // Content-Type
	etag string
}

// files are the embedded files by their names.
var files = load()

func load() map[string]file {
	entries, _ := embedded.ReadDir("files") // it is part of the program
	all := make(map[string]file, len(entries))
	for _, entry := range entries {
		body, _ := embedded.ReadFile("files/" + entry.Name())
		sum := sha256.Sum256(body)
		all[entry.Name()] = file{body, kinds[path.Ext(entry.Name())], `"` + hex.EncodeToString(sum[:12]) + `"`}
	}
	return all
}

// kinds are the types of the files. Those of package mime depend on the machine.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// policy allows the page its own files and requests to its own site, and images that the
// person has chosen. Nothing within the page is executed or loaded.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Has reports whether there is a file of this name. The empty name is the page itself.
func Has(name string) bool {
	_, ok := files[name]
	return ok || name == ""
}

// Serve answers a GET or HEAD of a file that [Has] reports.
func Serve(w http.ResponseWriter, r *http.Request, name string) {
	if name == "" {
		name = index
	}
	f := files[name]
	header := w.Header()
	header.Set("Content-Type", f.kind)
	header.Set("ETag", f.etag)
	header.Set("Cache-Control", "no-cache") // it is asked for again, and usually not sent again
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.body))
}
