package caddymodule

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

// pageIndex is the file of the page itself.
const pageIndex = "index.html"

//go:embed page
var pageFiles embed.FS

// pageTypes are the types of the files. Those of package mime depend on the machine.
var pageTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// pagePolicy allows the page its own files and requests to its own site, and images that the
// person has chosen. Nothing within the page is executed or loaded.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// readPage returns a file of the page.
func readPage(name string) ([]byte, error) {
	return pageFiles.ReadFile("page/" + cmp.Or(name, pageIndex))
}

// hasPage reports whether there is a file of this name. The empty name is the page itself.
func hasPage(name string) bool {
	_, err := readPage(name)
	return err == nil
}

// servePage answers a GET or HEAD of a file that hasPage reports.
func servePage(w http.ResponseWriter, r *http.Request, name string) {
	body, _ := readPage(name)
	header := w.Header()
	header.Set("Content-Type", pageTypes[path.Ext(cmp.Or(name, pageIndex))])
	header.Set("ETag", fmt.Sprintf(`"%.12x"`, sha256.Sum256(body)))
	header.Set("Cache-Control", "no-cache") // it is asked for again, and usually not sent again
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}
