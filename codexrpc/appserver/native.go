package appserver

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// npmPackage is the package that contains npmLauncher. Packages beside it contain the
// native program, one for each platform.
const (
	npmPackage  = "@openai/codex"
	npmLauncher = "/" + npmPackage + "/bin/codex.js"
)

// nativePrograms are, by system and architecture, the path of the native program below
// a directory node_modules. On Windows, npm's commands are scripts, not links.
var nativePrograms = map[string]string{
	"linux/amd64":  npmPackage + "-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
	"linux/arm64":  npmPackage + "-linux-arm64/vendor/aarch64-unknown-linux-musl/bin/codex",
	"darwin/amd64": npmPackage + "-darwin-x64/vendor/x86_64-apple-darwin/bin/codex",
	"darwin/arm64": npmPackage + "-darwin-arm64/vendor/aarch64-apple-darwin/bin/codex",
}

// executable returns the program to start for the first word of a command: if that is
// the launcher from npm, a script for Node, the native program that the launcher would
// start, else the word itself. Without the launcher a start takes less time, and up to
// 43 MB less are in use.
func executable(name string) string {
	path, err := exec.LookPath(name)
	if err != nil || !filepath.IsAbs(path) {
		return name // starting it fails, or it is found from the working directory
	}
	if path, err = filepath.EvalSymlinks(path); err != nil || !strings.HasSuffix(path, npmLauncher) {
		return name
	}
	program, ok := nativePrograms[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		return name
	}
	// Node looks for packages in the same way.
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if native, err := exec.LookPath(filepath.Join(dir, "node_modules", program)); err == nil {
			return native
		}
		if dir == filepath.Dir(dir) {
			return name
		}
	}
}
