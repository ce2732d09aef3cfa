package clients

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/logbook"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
)

// TestPackages makes the files of a release for this system, unpacks or installs each, starts a
// server from it as its users do, and runs the smoke check against that server.
func TestPackages(t *testing.T) {
	out := packRelease(t)
	s := e2e.NewUnstarted(t)
	installed := t.TempDir()
	into := func(name string) string {
		dir := filepath.Join(installed, name)
		must.OK(t, os.MkdirAll(dir, 0o755))
		return dir
	}
	one := func(pattern string) string {
		found, err := filepath.Glob(filepath.Join(out, pattern))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %q, %v", pattern, found, err)
		}
		return found[0]
	}
	run := func(name string, args ...string) {
		t.Helper()
		if output, err := exec.CommandContext(e2e.Context(t), name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v: %s", name, args, err, output)
		}
	}

	archive, deb, rpm, npm := into("archive"), into("deb"), into("rpm"), into("npm")
	run("tar", "-xzf", one("*.tar.gz"), "--strip-components", "1", "-C", archive)
	unpackDeb(t, one("*.deb"), deb)
	unpackRPM(t, one("*.rpm"), rpm)
	run("npm", "install", "--offline", "--no-audit", "--no-fund", "--prefix", npm, one("caddy-codex-[0-9]*.tgz"), one("caddy-codex-linux-*.tgz"))

	for _, root := range []string{deb, rpm} {
		unit := e2e.ReadFile(t, filepath.Join(root, "usr/lib/systemd/system/caddy-codex.service"))
		if !strings.Contains(unit, "\nExecStart=/usr/bin/caddy-codex run --config /etc/caddy-codex/Caddyfile\n") || strings.Contains(unit, "/usr/local/bin/caddy ") {
			t.Error(unit)
		}
	}
	for name, c := range map[string]struct {
		program   string
		caddyfile string // empty: it has its own
		key       bool
	}{
		"archive": {archive + "/caddy", archive + "/Caddyfile.example", false},
		"deb":     {deb + "/usr/bin/caddy-codex", deb + "/etc/caddy-codex/Caddyfile", true},
		"rpm":     {rpm + "/usr/bin/caddy-codex", rpm + "/etc/caddy-codex/Caddyfile", true},
		"image":   {out + "/image/linux/" + runtime.GOARCH + "/caddy", "../../../../examples/docker/Caddyfile", true},
		"npm":     {npm + "/node_modules/.bin/caddy-codex", "", false},
	} {
		t.Run(name, func(t *testing.T) { testInstalled(t, s, c.program, c.caddyfile, c.key) })
	}
	t.Run("npm without Codex", func(t *testing.T) {
		node, err := exec.LookPath("node")
		must.OK(t, err)
		// Each message says what to do; nothing is started.
		for want, env := range map[string]string{"npm install -g @openai/codex@" + pinned("CODEX_VERSION"): "PATH=/no-such", "PORT is ": "PORT=0x10"} {
			cmd := exec.CommandContext(e2e.Context(t), node, npm+"/node_modules/caddy-codex/caddy-codex.js")
			cmd.Env = append(os.Environ(), env)
			if output, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(output), want) {
				t.Errorf("%s: %v: %s", env, err, output)
			}
		}
	})
}

// packRelease packs a program that becomes the built Caddy, as scripts/release does, and checks the checksums. Caddy
// itself is so large that to compress it for each file would take half a minute.
func packRelease(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		needs.Missing(t, "packages are installed on Linux")
	}
	jq, nfpm := ".cache/gojq", ".cache/nfpm-"+pinned("NFPM_VERSION")
	for _, tool := range []string{jq, nfpm} {
		if _, err := os.Stat("../../../../" + tool); err != nil {
			needs.Missing(t, "this test needs the tools of `make deps`: "+err.Error())
		}
	}
	dir := t.TempDir()
	program, source, out := filepath.Join(dir, "caddy"), filepath.Join(dir, "main.go"), filepath.Join(dir, "release")
	text := fmt.Sprintf("package main\n\nimport (\"os\"; \"syscall\")\n\nfunc main() { panic(syscall.Exec(%q, os.Args, os.Environ())) }\n", e2e.BuiltCaddy(t))
	must.OK(t, os.WriteFile(source, []byte(text), 0o600))
	if output, err := exec.CommandContext(e2e.Context(t), "go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	cmd := exec.CommandContext(t.Context(), "../../../../scripts/release", "v0.0.0", pinned("CADDY_VERSION"), "no-such-xcaddy", jq, nfpm, out)
	cmd.Env = append(os.Environ(), "TARGETS=linux/"+runtime.GOARCH, "PROGRAM="+program)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	check := exec.CommandContext(e2e.Context(t), "sha256sum", "--check", "SHA256SUMS")
	check.Dir = out
	// Two for npm, the archive, its components, two packages, and a program for the image.
	if output, err := check.CombinedOutput(); err != nil || strings.Count(string(output), ": OK\n") != 7 {
		t.Errorf("%v: %s", err, output)
	}
	return out
}

// testInstalled starts a server, checks it, and ends it.
func testInstalled(t *testing.T, s *e2e.Site, program, caddyfile string, withKey bool) {
	s = s.At(t).Node()
	_, port, _ := net.SplitHostPort(s.Addr)
	dir, log := t.TempDir(), new(logbook.Book)
	env := append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "CODEX_HOME="+s.Home, "CADDY_ADMIN="+e2e.FreeAddr(t), "PORT="+port,
		"PATH="+filepath.Dir(e2e.CodexBinary)+":"+os.Getenv("PATH"), "KEYS="+dir+"/keys", "CLIENT_KEY=sk-of-an-image")
	key := ""
	var args []string
	if caddyfile != "" {
		config := filepath.Join(dir, "Caddyfile")
		text := strings.NewReplacer(":8080", ":"+port, "localhost:2019", e2e.FreeAddr(t)).Replace(e2e.ReadFile(t, caddyfile))
		must.OK(t, os.WriteFile(config, []byte(text), 0o600))
		args = []string{"run", "--config", config, "--adapter", "caddyfile"}
	}
	if withKey {
		key = "sk-of-an-image"
		if strings.Contains(e2e.ReadFile(t, caddyfile), "api_keys_file") {
			add := exec.CommandContext(e2e.Context(t), program, "codex", "key", "add", "alice", "--file", dir+"/keys")
			add.Env = env
			output, err := add.Output()
			must.OK(t, err)
			key = regexp.MustCompile(`sk-\S+`).FindString(string(output))
		}
	}
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = env, log, log, e2e.Deadline
	must.OK(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	e2e.WaitFor(t, "the server", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("it has ended: %v: %s", err, log)
		default:
		}
		check := exec.CommandContext(e2e.Context(t), "curl", "--silent", "--fail", s.URL+"/readyz", "-H", "Authorization: Bearer "+key)
		return check.Run() == nil
	})
	smoke := exec.CommandContext(e2e.Context(t), "../../../../scripts/smoke", s.URL)
	smoke.Env = append(os.Environ(), "KEY="+key, "MODEL=", "ADMIN=")
	if output, err := smoke.CombinedOutput(); err != nil {
		t.Errorf("%v: %s\n%s", err, output, log)
	}
	// npx passes a Ctrl-C on, which the terminal has sent already: Caddy must not take the second
	// for an order to end at once, with another status.
	must.OK(t, cmd.Process.Signal(syscall.SIGINT))
	if args == nil {
		must.OK(t, cmd.Process.Signal(syscall.SIGINT))
	}
	if err := <-ended; err != nil {
		t.Errorf("its end: %v: %s", err, log)
	}
}

// unpackDeb unpacks the files of a package for Debian, as `dpkg -x` does.
func unpackDeb(t *testing.T, path, dir string) {
	t.Helper()
	data := []byte(e2e.ReadFile(t, path))
	data = data[len("!<arch>\n"):]
	for len(data) > 60 {
		name := strings.TrimSpace(string(data[:16]))
		size, err := strconv.Atoi(strings.TrimSpace(string(data[48:58])))
		must.OK(t, err)
		member := data[60:][:size]
		data = data[60+size+size%2:]
		if name != "data.tar.gz" {
			continue
		}
		unzipped, err := gzip.NewReader(bytes.NewReader(member))
		must.OK(t, err)
		for files := tar.NewReader(unzipped); ; {
			file, err := files.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			must.OK(t, err)
			if file.Typeflag == tar.TypeReg {
				writeFile(t, filepath.Join(dir, file.Name), files, file.FileInfo().Mode())
			}
		}
	}
	t.Fatalf("%s has no data", path)
}

// unpackRPM unpacks the files of an RPM package, as rpm2cpio and cpio do.
func unpackRPM(t *testing.T, path, dir string) {
	t.Helper()
	data := []byte(e2e.ReadFile(t, path))[96:] // without the lead
	for part := range 2 {                      // the signatures, which are padded, and the header
		entries, store := binary.BigEndian.Uint32(data[8:]), binary.BigEndian.Uint32(data[12:])
		size := 16 + 16*entries + store
		if part == 0 {
			size = (size + 7) / 8 * 8
		}
		data = data[size:]
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	must.OK(t, err)
	aligned := func(n int) int { return (n + 3) / 4 * 4 }
	for header := make([]byte, 110); ; {
		_, err := io.ReadFull(unzipped, header)
		must.OK(t, err)
		field := func(n int) int {
			value, err := strconv.ParseInt(string(header[6+8*n:][:8]), 16, 64)
			must.OK(t, err)
			return int(value)
		}
		mode, size, length := field(1), field(6), field(11)
		name := make([]byte, aligned(110+length)-110)
		_, err = io.ReadFull(unzipped, name)
		must.OK(t, err)
		content := io.LimitReader(unzipped, int64(size))
		switch file := string(name[:length-1]); {
		case file == "TRAILER!!!":
			return
		case mode&0o170000 == 0o100000:
			writeFile(t, filepath.Join(dir, file), content, os.FileMode(mode&0o777))
		}
		_, err = io.CopyN(io.Discard, io.MultiReader(content, unzipped), int64(aligned(size)-size))
		must.OK(t, err)
	}
}

func writeFile(t *testing.T, path string, content io.Reader, mode os.FileMode) {
	t.Helper()
	data, err := io.ReadAll(content)
	must.OK(t, errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, mode)))
}
