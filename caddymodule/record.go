package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/option"
	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// Record says which requests are recorded.
type Record struct {
	// `off`: none. `errors`: those that fail, or whose client does not get the whole answer. `all`: all. Default: `off`.
	Mode recorder.Mode `json:"mode,omitempty" option:"record [off|errors|all]" default:"off"`
	// Whether texts are recorded as they are. Default: false; others of the same length replace them.
	Texts bool `json:"texts,omitempty"`
	// Where recordings are also stored as files, with placeholders. Default: none; they are in memory only.
	Directory string `json:"directory,omitempty" option:"<name>"`
	// How much the files may take up together, in bytes; the oldest are removed. Default: 1 GiB.
	DirectorySize int64 `json:"directory_size,omitempty" option:"directory [<size>]" default:"1GiB"`
	// How long a file is kept. Default: `30d`.
	DirectoryAge caddy.Duration `json:"directory_age,omitempty" option:"directory [<duration>]" default:"30d"`
}

// parse reads <mode> and a block.
func (r *Record) parse(d *caddyfile.Dispenser) error {
	if err := option.ParseLine(d, option.Of(r)[:1], nil); err != nil {
		return err
	}
	return option.ParseBlock(d, r, map[string]option.Custom{"texts": {Parse: func(*caddyfile.Dispenser) error { r.Texts = true; return nil }}})
}

// recordings has the recordings of all handlers. A reload keeps them.
var recordings = recorder.New(func() bool { return slices.ContainsFunc(handlersInUse.all(), (*Handler).hasSeveralUsers) })

// recordRule returns what is to be recorded.
func (h *Handler) recordRule(ctx caddy.Context, app *App, repl *caddy.Replacer) (rule recorder.Rule, err error) {
	rule = recorder.Rule{Mode: h.Record.Mode, Texts: h.Record.Texts}
	path, err := option.AbsolutePath(repl, h.Record.Directory)
	if path == "" || err != nil {
		return rule, err
	}
	h.recordFiles = &recorder.Directory{Path: path, Size: h.Record.DirectorySize, Age: time.Duration(h.Record.DirectoryAge), Logger: ctx.Slogger()}
	rule.Store = h.recordFiles.Store
	app.storeStarts = append(app.storeStarts, func() error { rule.Store("", "", nil); return nil })
	return rule, nil
}

// recordStatus says what is being recorded, and why files cannot be written.
func recordStatus() (said []string) {
	for _, h := range handlersInUse.all() {
		if h.Record.Mode != recorder.Off {
			said = append(said, fmt.Sprintf("%s, texts: %t", h.Record.Mode, h.Record.Texts))
		}
		if d := h.recordFiles; d != nil && d.Err() != nil {
			said = append(said, d.Err().Error())
		}
	}
	for _, s := range recordings.List(everybody).Switches {
		said = append(said, fmt.Sprintf("switched on for user %q and key %q, texts: %t", s.User, s.Key, s.Texts))
	}
	return slices.Compact(said) // most handlers say the same
}

func everybody(string) bool { return true }

// timelines is locked while a timeline is made, which takes much more memory than the recording.
var timelines sync.Mutex

// findRecording returns what a query asks for: list, the text of one of its recordings, or the timeline of one.
func findRecording(list recorder.List, query url.Values) (any, *apierror.Error) {
	i := slices.IndexFunc(list.Recordings, func(r *recorder.Recording) bool { return r.ID == query.Get("id") })
	switch {
	case !query.Has("id"):
		return list, nil
	case i < 0:
		return nil, apierror.NoSuchRecording()
	case !query.Has("timeline"):
		return string(list.Recordings[i].Text()), nil
	}
	timelines.Lock()
	defer timelines.Unlock()
	entries, _ := recorder.Parse(list.Recordings[i].Text())
	return recorder.NewTimeline(entries), nil
}

// serveRecordings serves /codex/trace of the admin API.
func serveRecordings(w http.ResponseWriter, r *http.Request) error {
	switch r.Method {
	case http.MethodPost:
		asked := &struct {
			User, Key string
			Requests  int
			Minutes   float64
			Texts     bool
		}{Minutes: 60}
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
		decoder.DisallowUnknownFields() // a misspelt user must not record everybody
		err := decoder.Decode(&asked)
		if err == nil && (asked == nil || decoder.Decode(new(any)) != io.EOF || asked.Requests < 0 || asked.Minutes <= 0 || asked.Minutes > 1440) {
			// A forgotten switch goes off.
			err = errors.New("one object is needed; requests must be 0 (any number) or more, and minutes above 0 and at most 1440")
		}
		if err == nil {
			until := time.Now().Add(time.Duration(asked.Minutes * float64(time.Minute)))
			err = recordings.Switch(recorder.Switch{User: asked.User, Key: asked.Key, Requests: asked.Requests, Until: until, Texts: asked.Texts})
		}
		if err != nil {
			return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: fmt.Errorf("the body must be JSON with user, key, requests, minutes and texts: %w", err)}
		}
	case http.MethodDelete:
		recordings.SwitchOff()
	}
	found, apiErr := findRecording(recordings.List(everybody), r.URL.Query())
	if apiErr != nil {
		return caddy.APIError{HTTPStatus: apiErr.Status, Err: errors.New(apiErr.Message)}
	}
	w.Header().Set("Cache-Control", "no-store")
	if text, isText := found.(string); isText {
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, err := io.WriteString(w, text)
		return err
	}
	return writeAdmin(w, found)
}

// servePageRecordings serves /codex/trace of the page: what the caller may see, and the caller's own switch.
func (h *Handler) servePageRecordings(w http.ResponseWriter, r *http.Request, _ []string) {
	h.gateway.Document(w, r, func() (any, *apierror.Error) {
		own := recorder.Switch{User: h.accountOf(r), Own: true, Requests: 10, Texts: h.Record.Texts, Until: time.Now().Add(time.Hour)}
		if r.Method == http.MethodPost && recordings.Switch(own) != nil {
			return nil, apierror.TooManySwitches()
		}
		return findRecording(h.ownRecordings(r), r.URL.Query())
	})
}

// ownRecordings returns a caller's own recordings and switches: also with the option `usage all`, since a recording says
// much more than the usage. Texts that an operator has asked for are for the operator alone.
func (h *Handler) ownRecordings(r *http.Request) recorder.List {
	own := h.accountOf(r)
	list := recordings.List(func(user string) bool { return user == own })
	list.Recordings = slices.DeleteFunc(list.Recordings, func(rec *recorder.Recording) bool { return rec.Texts && !h.Record.Texts })
	return list
}

// markRecorded marks the entries of which the caller may see a recording.
func (h *Handler) markRecorded(r *http.Request, entries []usage.Entry) {
	recorded := make(map[[2]string]bool)
	for _, rec := range h.ownRecordings(r).Recordings {
		recorded[[2]string{rec.ID, rec.User}] = true
	}
	for i := range entries {
		entries[i].Recorded = recorded[[2]string{entries[i].RequestID, entries[i].User}]
	}
}
