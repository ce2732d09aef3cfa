package option

import "github.com/caddyserver/caddy/v2"

// AbsolutePath replaces the placeholders in a path and makes it absolute. It leaves an empty path
// empty. A placeholder that is empty or unknown is an error.
func AbsolutePath(repl *caddy.Replacer, path string) (string, error) {
	path, err := repl.ReplaceOrErr(path, true, true)
	if path == "" || err != nil {
		return "", err
	}
	return caddy.FastAbs(path)
}
