package gateway

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// record begins the recording of a request, if it is to be recorded. close ends the recording.
func (g *Gateway) record(ex *exchange) {
	ex.recording = g.opts.Recorder.Begin(g.opts.Record, ex.arrived, func() recorder.Head { return g.recordedHead(ex) })
	if ex.recording == nil {
		return
	}
	ex.ctx = ex.recording.Context(ex.ctx, 0)
	if ex.events != nil {
		ex.events = ex.recordEvents(ex.events)
	}
	ex.w = &recordedWriter{ResponseWriter: ex.w, recording: ex.recording}
	ex.releaseOnClose(releaseFunc(func() { ex.recording.End("aborted", nil) })) // does nothing after endRecording
}

func (g *Gateway) recordedHead(ex *exchange) recorder.Head {
	o := &g.opts
	head := recorder.Head{
		RequestID: requestID(ex.r), Time: ex.arrived, User: ex.user, Method: ex.r.Method, Path: ex.r.URL.Path, Proto: ex.r.Proto,
		Header: recordedHeader(ex.r.Header),
		Options: map[string]any{
			"tools": o.Tools, "stop_grace": o.StopGrace, "idle_timeout": o.IdleTimeout, "keepalive": o.Keepalive, "max_body": o.MaxBody,
			"max_choices": g.queue.Heaviest(), "web_search": o.WebSearch, "no_reasoning": o.NoReasoning, "shorten": o.Shorten, "ollama": o.Ollama,
		},
	}
	if ex.events != nil {
		head.Proto = "WebSocket"
	}
	return head
}

// recordedHeaders are the headers that are recorded: those that the answer depends on, or that say what it is. A replay
// knows no plan and no key, so headers about these are left out.
var recordedHeaders = []string{
	"Accept", "Content-Type", "User-Agent", "Anthropic-Version", "Anthropic-Beta", "Openai-Beta", "X-Proxy-Stop-After-Tools",
	modeHeader, stopHeader, countHeader, truncatedHeader, ignoredHeader, shortenedHeader, "Retry-After", "X-Should-Retry",
}

// AnswerHeaders are the headers that say how a request was served. Pages may read them.
var AnswerHeaders = []string{
	modeHeader, stopHeader, countHeader, truncatedHeader, ignoredHeader, shortenedHeader, budgetHeader, notStoredHeader,
	reserveHeader, "Retry-After", "X-Should-Retry", "X-Codex-Active-Limit",
	"X-Codex-Primary-Used-Percent", "X-Codex-Primary-Window-Minutes", "X-Codex-Primary-Reset-At",
	"X-Codex-Secondary-Used-Percent", "X-Codex-Secondary-Window-Minutes", "X-Codex-Secondary-Reset-At",
}

func recordedHeader(header http.Header) map[string]string {
	recorded := make(map[string]string)
	for name, values := range header {
		if slices.Contains(recordedHeaders, name) {
			recorded[name] = strings.Join(values, ", ")
		}
	}
	return recorded
}

// recordedWriter records what is written to the client.
type recordedWriter struct {
	http.ResponseWriter
	recording *recorder.Exchange
	began     bool
}

// Unwrap is for [http.ResponseController].
func (w *recordedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w *recordedWriter) WriteHeader(status int) {
	if !w.began && status >= http.StatusOK {
		w.began = true
		w.recording.Began(recorder.Status{Status: status, Header: recordedHeader(w.Header())})
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *recordedWriter) Write(p []byte) (int, error) {
	if !w.began {
		w.WriteHeader(http.StatusOK)
	}
	began := time.Now()
	n, err := w.ResponseWriter.Write(p)
	w.recording.Wrote(p[:n], began)
	return n, err
}

// FlushError flushes for [http.ResponseController]. It is here that a slow client lets the server wait.
func (w *recordedWriter) FlushError() error {
	began := time.Now()
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if time.Since(began) >= recorder.MinWait {
		w.recording.Wrote(nil, began)
	}
	return err
}

// recordedEvents records events that do not go to an [http.ResponseWriter].
type recordedEvents struct {
	events
	recording *recorder.Exchange
}

func (ex *exchange) recordEvents(to events) events {
	if ex.recording == nil {
		return to
	}
	return &recordedEvents{to, ex.recording}
}

// WriteEvent records an event as a server-sent event.
func (e *recordedEvents) WriteEvent(name string, data []byte) error {
	began := time.Now()
	err := e.events.WriteEvent(name, data)
	e.recording.Wrote(slices.Concat([]byte("event: "+name+"\ndata: "), data, []byte("\n\n")), began)
	return err
}

func (ex *exchange) recordParts(choice int, outputs []turn.Output) {
	if ex.recording == nil {
		return
	}
	var parts []recorder.Part
	for i := range outputs {
		if kind := outputs[i].Kind; kind != turn.OutputText && kind != turn.OutputReasoning { // what is written shows these
			parts = append(parts, recorder.Part{Kind: kind.String(), Call: outputs[i].Call, Bytes: len(outputs[i].Text)})
		}
	}
	ex.recording.Parts(choice, parts)
}

// endRecording records how a request has ended.
func (ex *exchange) endRecording(outcome *requestOutcome) {
	if ex.recording == nil {
		return
	}
	code := ""
	switch {
	case outcome.apiErr != nil:
		code = outcome.apiErr.Code.Label()
		ex.recording.Note(0, "failed", map[string]string{"error": cmp.Or(outcome.apiErr.Detail, outcome.apiErr.Message)})
	case outcome.deliveryErr != nil:
		code = "client_gone"
		ex.recording.Note(0, "failed", map[string]string{"error": outcome.deliveryErr.Error()})
	}
	turns := make([]usage.Entry, len(outcome.turns))
	for i := range turns {
		turns[i] = usage.NewEntry(&outcome.turns[i])
		turns[i].User = ""
		for reason, n := range outcome.turns[i].Tools.Aborted {
			ex.recording.Note(turns[i].Choice, "a begun tool block was no call", map[string]any{"reason": reason, "blocks": n})
		}
	}
	ex.recording.End(code, turns)
}
