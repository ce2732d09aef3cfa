package appserver

import (
	"bytes"
	"cmp"
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

// changes are the members of a model that get other values, in the order in
// which they are added to a model without them: those by which Codex offers it
// tools of its own, and those by which Codex takes a history for too long and
// replaces it by a summary. No other setting does that. Whether a history is too
// long is then the provider's to say.
var changes = []struct{ name, value string }{
	{"tool_mode", `"direct"`},              // no exec and wait around the tools
	{"apply_patch_tool_type", `null`},      // no apply_patch
	{"experimental_supported_tools", `[]`}, // no clock, no messages to the user
	{"multi_agent_version", `null`},        // no agents
	{"supports_search_tool", `false`},      // no search for tools
	{"context_window", `null`},             // no compaction
	{"max_context_window", `null`},
	{"auto_compact_token_limit", `null`},
}

// fallback is a catalogue of one model whose name is the beginning of every
// name. It has the properties that Codex assumes of a model that it does not
// know, but for the context window.
const fallback = `{"models":[{"slug":"","display_name":"","supported_reasoning_levels":[],"shell_type":"default",` +
	`"visibility":"none","supported_in_api":true,"priority":99,"base_instructions":"","support_verbosity":false,` +
	`"truncation_policy":{"mode":"bytes","limit":10000},"experimental_supported_tools":[]}]}`

// catalogue is a file with the properties of models.
type catalogue struct {
	path     string // empty: there is none
	fallback string // the file with the fallback
	models   []modelEntry
}

// modelEntry is what is kept of a model of the catalogue.
type modelEntry struct {
	slug   string
	prompt string // Codex's own, for the model; empty: it is not there
	lite   bool   // use_responses_lite
}

// find finds a model in the catalogue, by its name or as a dated version of one,
// as Codex does. Nil: it is not there.
func (c *catalogue) find(model string) (found *modelEntry) {
	for i := range c.models {
		entry := &c.models[i]
		if (model == entry.slug || strings.HasPrefix(model, entry.slug+"-")) && (found == nil || len(entry.slug) > len(found.slug)) {
			found = entry
		}
	}
	return found
}

// write waits for the run's end and writes the catalogue of Codex's models with
// the changes, a file for model_catalog_json, and the fallback beside it. Each is
// there as a whole or not at all.
func (r *catalogueRun) write() (catalogue, error) {
	content, err := r.wait()
	if err != nil {
		return catalogue{}, err
	}
	if content, err = changed(content); err != nil {
		return catalogue{}, fmt.Errorf("the catalogue of codex models: %w", err)
	}
	written := catalogue{path: r.path, fallback: filepath.Join(filepath.Dir(r.path), "fallback.json")}
	if err = replaceFile(written.path, content); err == nil {
		err = replaceFile(written.fallback, []byte(fallback))
	}
	if err != nil {
		return catalogue{}, fmt.Errorf("writing the catalogue of codex models: %w", err)
	}
	for _, model := range gjson.GetBytes(content, "models").Array() {
		if slug := model.Get("slug").Str; slug != "" {
			written.models = append(written.models, modelEntry{
				slug:   strings.Clone(slug),
				prompt: strings.Clone(model.Get("base_instructions").Str),
				lite:   model.Get("use_responses_lite").Bool(),
			})
		}
	}
	return written, nil
}

// catalogueRun is a run of the program that prints its catalogue, from its fork
// to its end. Each is to be waited for, by write.
type catalogueRun struct {
	path              string
	command           []string
	cmd               *exec.Cmd
	ctx               context.Context
	abort             context.CancelCauseFunc
	cancel            context.CancelFunc // of the timeout
	output, complaint *boundedBuffer
	err               error // why it did not start
}

// startCatalogue forks the program for its catalogue, which is to be written to
// path, with an environment. Without a working directory of the operator's it runs in that of the
// file.
func (cfg *Config) startCatalogue(path string, env []string, timeout time.Duration) *catalogueRun {
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, fmt.Errorf("it did not end within %s", timeout))
	r := &catalogueRun{path: path, cancel: cancel}
	r.ctx, r.abort = context.WithCancelCause(ctx)
	if r.command, r.err = cfg.catalogueCommand(); r.err != nil {
		return r
	}
	r.output = &boundedBuffer{limit: maxCatalogue, full: func() {
		r.abort(fmt.Errorf("it printed more than %d bytes", maxCatalogue))
	}}
	r.complaint = &boundedBuffer{limit: maxComplaint}
	r.cmd = exec.CommandContext(r.ctx, r.command[0], r.command[1:]...)
	r.cmd.Dir = cmp.Or(cfg.Dir, filepath.Dir(path))
	r.cmd.Env = env
	r.cmd.Stdout, r.cmd.Stderr = r.output, r.complaint
	// The program may be a launcher, and the one that prints its child.
	ownGroup(r.cmd)
	r.cmd.Cancel = func() error {
		killGroup(r.cmd)
		return nil
	}
	r.cmd.WaitDelay = stderrGrace
	if err := r.cmd.Start(); err != nil {
		r.err = fmt.Errorf("running `%s`: %w", strings.Join(r.command, " "), err)
	}
	return r
}

// wait waits for the end of the run and returns what it has printed.
func (r *catalogueRun) wait() ([]byte, error) {
	defer r.cancel()
	defer r.abort(nil)
	if r.err != nil {
		return nil, r.err
	}
	err := r.cmd.Wait()
	if r.ctx.Err() != nil {
		err = context.Cause(r.ctx)
	}
	if err == nil {
		return r.output.kept.Bytes(), nil
	}
	killGroup(r.cmd) // what it has left behind
	if said := firstWords(r.complaint.kept.String()); said != "" {
		return nil, fmt.Errorf("running `%s`: %w; it said: %s", strings.Join(r.command, " "), err, said)
	}
	return nil, fmt.Errorf("running `%s`: %w", strings.Join(r.command, " "), err)
}

// catalogueCommand is the configured command up to "app-server", which is the
// program with what holds for all that it does, and catalogueArgs.
func (cfg *Config) catalogueCommand() ([]string, error) {
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

// changed makes the changes in each model of a catalogue. All else stays byte for
// byte, also what this release of Codex does not have.
func changed(catalogue []byte) ([]byte, error) {
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
		out = appendChanged(out, model)
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

// appendChanged appends one model, changed.
func appendChanged(dst []byte, model gjson.Result) []byte {
	missing := slices.Clone(changes)
	last, empty := 0, true // up to which the model is in dst
	model.ForEach(func(key, value gjson.Result) bool {
		empty = false
		for _, change := range changes {
			if key.Str != change.name {
				continue
			}
			begin := value.Index - model.Index
			dst = append(dst, model.Raw[last:begin]...)
			dst = append(dst, change.value...)
			last = begin + len(value.Raw)
			missing = slices.DeleteFunc(missing, func(m struct{ name, value string }) bool { return m == change })
		}
		return true
	})
	end := len(model.Raw) - 1 // its closing brace
	dst = append(dst, model.Raw[last:end]...)
	for _, change := range missing {
		if !empty {
			dst = append(dst, ',')
		}
		empty = false
		dst = append(dst, `"`+change.name+`":`+change.value...)
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
