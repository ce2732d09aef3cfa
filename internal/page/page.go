// Package page has the files of the page for people and serves them.
package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"path"
	"time"
)

// index is the file of the page itself.
const index = "index.html"

//go:embed files
var embedded embed.FS

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

// read returns a file.
func read(name string) ([]byte, error) { return embedded.ReadFile("files/" + cmp.Or(name, index)) }

// Has reports whether there is a file of this name. The empty name is the page itself.
func Has(name string) bool {
	_, err := read(name)
	return err == nil
}

// Serve answers a GET or HEAD of a file that [Has] reports.
func Serve(w http.ResponseWriter, r *http.Request, name string) {
	body, _ := read(name)
	header := w.Header()
	header.Set("Content-Type", kinds[path.Ext(cmp.Or(name, index))])
	header.Set("ETag", fmt.Sprintf(`"%.12x"`, sha256.Sum256(body)))
	header.Set("Cache-Control", "no-cache") // it is asked for again, and usually not sent again
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}
