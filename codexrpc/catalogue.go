package codexrpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

const (
	// appServerCommand is where the app-server's own arguments begin.
	appServerCommand = "app-server"
	// catalogueTimeout bounds the run that prints the catalogue, which takes
	// 10 to 100 ms.
	catalogueTimeout = 5 * time.Second
	// maxCatalogue bounds what it may print, in bytes. Three quarters of a
	// megabyte are usual.
	maxCatalogue = 16 << 20
	// maxComplaint bounds what is kept of its stderr, in bytes.
	maxComplaint = 1 << 10
)

// catalogueArgs make Codex print the catalogue of its models: the operator's
// own (model_catalog_json) or the one that came with the program. With a login
// in sight Codex would ask the provider first and renew an expired login for
// that, beside an app-server that does the same with the same refresh token;
// a run that is then cut off could even lose the new one. Hence no login.
var catalogueArgs = []string{"debug", "models", "-c", `cli_auth_credentials_store="ephemeral"`}

// ownTools are the members of a model by which Codex offers it tools of its
// own that no other setting takes away, with the values that do. They are in
// the order in which they are added to a model without them.
var ownTools = []struct{ name, value string }{
	{"tool_mode", `"direct"`},              // no exec and wait around the tools
	{"apply_patch_tool_type", `null`},      // no apply_patch
	{"experimental_supported_tools", `[]`}, // no clock, no messages to the user
	{"multi_agent_version", `null`},        // no agents
	{"supports_search_tool", `false`},      // no search for tools
}

// catalogue is a file with the properties of models.
type catalogue struct {
	path   string   // empty: there is none
	models []string // their slugs
}

// knows reports whether a model is in the catalogue: by its name, or as a dated
// version of one, as Codex looks them up.
func (c *catalogue) knows(model string) bool {
	return slices.ContainsFunc(c.models, func(slug string) bool {
		return model == slug || strings.HasPrefix(model, slug+"-")
	})
}

// writeCatalogue writes the catalogue of Codex's models to path, changed so
// that the models are offered no tools of Codex's own: a file for
// model_catalog_json. It is there as a whole or not at all. Without a working
// directory of the operator's, the program runs in that of the file.
func (cfg *ProcessConfig) writeCatalogue(ctx context.Context, path string) (catalogue, error) {
	return cfg.writeCatalogueWithin(ctx, path, catalogueTimeout)
}

// writeCatalogueWithin is writeCatalogue with another patience.
func (cfg *ProcessConfig) writeCatalogueWithin(ctx context.Context, path string, timeout time.Duration) (catalogue, error) {
	dir := cfg.Dir
	if dir == "" {
		dir = filepath.Dir(path)
	}
	content, err := cfg.readCatalogue(ctx, dir, timeout)
	if err != nil {
		return catalogue{}, err
	}
	if content, err = withoutOwnTools(content); err != nil {
		return catalogue{}, fmt.Errorf("the catalogue of codex models: %w", err)
	}
	if err := replaceFile(path, content); err != nil {
		return catalogue{}, fmt.Errorf("writing the catalogue of codex models: %w", err)
	}
	written := catalogue{path: path}
	for _, slug := range gjson.GetBytes(content, "models.#.slug").Array() {
		if slug.Str != "" {
			written.models = append(written.models, strings.Clone(slug.Str))
		}
	}
	return written, nil
}

// readCatalogue runs the program for its catalogue.
func (cfg *ProcessConfig) readCatalogue(ctx context.Context, dir string, timeout time.Duration) ([]byte, error) {
	command, err := cfg.catalogueCommand()
	if err != nil {
		return nil, err
	}
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it did not end within %s", timeout))
	defer cancel()
	output := &boundedBuffer{limit: maxCatalogue, full: func() {
		abort(fmt.Errorf("it printed more than %d bytes", maxCatalogue))
	}}
	complaint := &boundedBuffer{limit: maxComplaint}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = cfg.environ()
	cmd.Stdout, cmd.Stderr = output, complaint
	// The program may be a launcher, and the one that prints its child.
	ownGroup(cmd)
	cmd.Cancel = func() error {
		killGroup(cmd)
		return nil
	}
	cmd.WaitDelay = stderrGrace
	err = cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return output.kept.Bytes(), nil
	}
	killGroup(cmd) // what it has left behind
	if said := firstWords(complaint.kept.String()); said != "" {
		return nil, fmt.Errorf("running `%s`: %w; it said: %s", strings.Join(command, " "), err, said)
	}
	return nil, fmt.Errorf("running `%s`: %w", strings.Join(command, " "), err)
}

// catalogueCommand is the configured command up to "app-server", which is the
// program with what holds for all that it does, and catalogueArgs.
func (cfg *ProcessConfig) catalogueCommand() ([]string, error) {
	i := slices.Index(cfg.Command, appServerCommand)
	if i < 1 {
		return nil, fmt.Errorf("the command %q does not run codex with %q: there is no asking it for its models", cfg.Command, appServerCommand)
	}
	return append(slices.Clone(cfg.Command[:i]), catalogueArgs...), nil
}

// firstWords is the part of a complaint that tells something: Codex begins
// with its error and goes on with a stack.
func firstWords(complaint string) string {
	complaint, _, _ = strings.Cut(complaint, "Stack backtrace:")
	words := strings.Join(strings.Fields(complaint), " ")
	if len(words) > keptLineBytes {
		words = strings.ToValidUTF8(words[:keptLineBytes], "") + "…"
	}
	return words
}

// withoutOwnTools sets the members of ownTools in each model of a catalogue.
// All else stays byte for byte, also what this release of Codex does not have.
func withoutOwnTools(catalogue []byte) ([]byte, error) {
	if !gjson.ValidBytes(catalogue) {
		return nil, errors.New("it is not JSON")
	}
	models := gjson.ParseBytes(catalogue).Get("models")
	if !models.IsArray() {
		return nil, errors.New(`it has no list "models"`)
	}
	var (
		out   = make([]byte, 0, len(catalogue)+len(catalogue)/16)
		last  int // up to which the catalogue is in out
		count int
		err   error
	)
	models.ForEach(func(_, model gjson.Result) bool {
		if !model.IsObject() {
			err = fmt.Errorf("its model %d is not an object", count)
			return false
		}
		count++
		out = append(out, catalogue[last:model.Index]...)
		out = appendWithoutOwnTools(out, model)
		last = model.Index + len(model.Raw)
		return true
	})
	switch {
	case err != nil:
		return nil, err
	case count == 0:
		return nil, errors.New("it has no models")
	}
	return append(out, catalogue[last:]...), nil
}

// appendWithoutOwnTools appends one model, changed.
func appendWithoutOwnTools(dst []byte, model gjson.Result) []byte {
	missing := slices.Clone(ownTools)
	last, empty := 0, true // up to which the model is in dst
	model.ForEach(func(key, value gjson.Result) bool {
		empty = false
		for _, own := range ownTools {
			if key.Str != own.name {
				continue
			}
			begin := value.Index - model.Index
			dst = append(dst, model.Raw[last:begin]...)
			dst = append(dst, own.value...)
			last = begin + len(value.Raw)
			missing = slices.DeleteFunc(missing, func(m struct{ name, value string }) bool { return m == own })
		}
		return true
	})
	end := len(model.Raw) - 1 // its closing brace
	dst = append(dst, model.Raw[last:end]...)
	for _, own := range missing {
		if !empty {
			dst = append(dst, ',')
		}
		empty = false
		dst = append(dst, `"`+own.name+`":`+own.value...)
	}
	return append(dst, model.Raw[end:]...)
}

// replaceFile writes a file that only this user may read, in one step for
// those who read it.
func replaceFile(path string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// boundedBuffer keeps what is written up to its limit. What is above is
// dropped, and reported to full.
type boundedBuffer struct {
	kept  bytes.Buffer // not embedded: its ReadFrom would go around the limit
	limit int
	full  func() // may be nil
}

// Write never fails, so that a program with much to say ends by itself and
// with its own error, unless full ends it.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	if room := b.limit - b.kept.Len(); len(p) > room {
		b.kept.Write(p[:room])
		if b.full != nil {
			b.full()
		}
		return len(p), nil
	}
	return b.kept.Write(p)
}
