package appserver

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestProgramRefused checks that the error of Config.Start becomes the reason.
func TestProgramRefused(t *testing.T) {
	p := New(Config{Start: func() (*Program, error) { return nil, io.ErrNoProgress }}, nil)
	p.Start()
	t.Cleanup(p.Stop)
	if status := awaitState(t, p, StateBackoff); !strings.Contains(status.Reason, io.ErrNoProgress.Error()) {
		t.Errorf("%+v", status)
	}
}

// npmInstallation makes the files of an installation by npm: the launcher in a
// directory node_modules, and the native program in another one unless that is "". It
// returns the path of the link that npm makes on the PATH, and of the native program.
func npmInstallation(t *testing.T, launcherIn, nativeIn string) (link, native string) {
	t.Helper()
	program := nativePrograms[runtime.GOOS+"/"+runtime.GOARCH]
	launcher := filepath.Join(launcherIn, npmPackage, "bin", "codex.js")
	writeNested(t, launcher, "#!/bin/sh\necho a launcher\n")
	link = filepath.Join(t.TempDir(), "codex")
	must.OK(t, os.Symlink(launcher, link))
	native = "none"
	if nativeIn != "" {
		native = filepath.Join(nativeIn, program)
		writeNested(t, native, "#!/bin/sh\necho the native program \"$@\"\n")
	}
	for _, path := range []string{launcher, native} {
		if err := os.Chmod(path, 0o700); err != nil && path != "none" {
			t.Fatal(err)
		}
	}
	return link, native
}

// TestNativeProgram checks that the native program is found where Node would find it.
func TestNativeProgram(t *testing.T) {
	for name, test := range map[string]struct{ launcher, native string }{
		"beside":               {"lib/node_modules", "lib/node_modules"},
		"within":               {"lib/node_modules", "lib/node_modules/@openai/codex/node_modules"},
		"of the store":         {"node_modules/.pnpm/codex/node_modules", "node_modules/.pnpm/codex/node_modules"},
		"of a directory above": {"a/b/node_modules", "node_modules"},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := filepath.EvalSymlinks(t.TempDir())
			must.OK(t, err)
			link, native := npmInstallation(t, filepath.Join(root, test.launcher), filepath.Join(root, test.native))
			if got := executable(link); got != native {
				t.Errorf("%s is started, want %s", got, native)
			}
			t.Setenv("PATH", filepath.Dir(link)+":"+os.Getenv("PATH"))
			if got := executable("codex"); got != native {
				t.Errorf("%s is started from the PATH, want %s", got, native)
			}
			if got := executable(native); got != native {
				t.Errorf("%s is started for the native program", got)
			}
		})
	}
}

// TestNoNativeProgram checks that a command that is not npm's launcher, or whose native
// program cannot be found or run, is started as it is.
func TestNoNativeProgram(t *testing.T) {
	for name, spoil := range map[string]func(modules, native string) error{
		"another package": func(modules, _ string) error {
			if err := os.Rename(filepath.Join(modules, "@openai"), filepath.Join(modules, "@else")); err != nil {
				return err
			}
			return os.Symlink("@else", filepath.Join(modules, "@openai"))
		},
		"another script": func(modules, _ string) error {
			bin := filepath.Join(modules, npmPackage, "bin")
			if err := os.Rename(filepath.Join(bin, "codex.js"), filepath.Join(bin, "other.js")); err != nil {
				return err
			}
			return os.Symlink("other.js", filepath.Join(bin, "codex.js"))
		},
		"no native program": func(_, native string) error { return os.Remove(native) },
		"not executable":    func(_, native string) error { return os.Chmod(native, 0o600) },
		"a directory": func(_, native string) error {
			if err := os.Remove(native); err != nil {
				return err
			}
			return os.Mkdir(native, 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			modules := filepath.Join(t.TempDir(), "node_modules")
			link, native := npmInstallation(t, modules, modules)
			must.OK(t, spoil(modules, native))
			if got := executable(link); got != link {
				t.Errorf("%s is started", got)
			}
		})
	}
	for _, name := range []string{"/no/such/codex", "no-such-codex", "./codex", ""} {
		if got := executable(name); got != name {
			t.Errorf("%s is started for %q", got, name)
		}
	}
}

// TestNativeProgramStarts checks that the app-server and the run for the catalogue are
// the native program, with the arguments of the command.
func TestNativeProgramStarts(t *testing.T) {
	modules := filepath.Join(t.TempDir(), "node_modules")
	link, _ := npmInstallation(t, modules, modules)
	cfg := &Config{Command: []string{link, "-c", "a=b", "app-server"}}
	printed, err := cfg.print(t.TempDir())
	if want := "the native program -c a=b debug models"; err != nil || !strings.HasPrefix(string(printed), want) {
		t.Errorf("%q, %v, want %q", printed, err, want)
	}
	program, err := cfg.startProgram(t.TempDir(), os.Environ())
	must.OK(t, err)
	said := make([]byte, 100)
	n, _ := program.Stdout.Read(said)
	program.Wait()
	if want := "the native program -c a=b app-server\n"; string(said[:n]) != want {
		t.Errorf("%q, want %q", said[:n], want)
	}
}

// TestProgramReplaced checks that a new file in place of the program is noticed, also behind npm's link.
func TestProgramReplaced(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	must.OK(t, err)
	modules := filepath.Join(root, "node_modules")
	link, native := npmInstallation(t, modules, modules)
	p := New(Config{Command: []string{link, appServerCommand}}, nil)
	if p.ProgramReplaced() {
		t.Error("nothing runs, and it is replaced")
	}
	p.published.status.State = StateReady
	p.published.latest = &instance{file: p.cfg.programFile()}
	if p.ProgramReplaced() {
		t.Error("it is replaced at once")
	}
	must.OK(t, os.Chtimes(native, time.Time{}, time.Now().Add(time.Hour)))
	if p.ProgramReplaced() {
		t.Error("it was only touched, and is replaced")
	}
	must.OK(t, os.Rename(native, native+".old"))
	writeNested(t, native, "#!/bin/sh\necho a newer one\n")
	must.OK(t, os.Chmod(native, 0o700))
	if !p.ProgramReplaced() {
		t.Error("it is not noticed")
	}
}

// TestWrapper: a script that adds app-server itself, if it gets no command, is an app-server.
func TestWrapper(t *testing.T) {
	wrapper := filepath.Join(t.TempDir(), "wrapper")
	p := startProcess(t, "", func(cfg *Config) {
		writeTestFile(t, wrapper, "#!/bin/sh\nexec '"+cfg.Command[0]+"' \"${@:-app-server}\"\n")
		must.OK(t, os.Chmod(wrapper, 0o700))
		cfg.Command = []string{wrapper}
		must.OK(t, cfg.CheckCommand())
	})
	awaitState(t, p, StateReady)
}
