package fakecodex

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/recorder"
)

// Transcripts are the recordings that a server plays. Servers may share them.
type Transcripts struct {
	turns   []*turn
	answers map[string]string       // recorded results of the fixed methods
	refused map[string]gjson.Result // recorded errors of those without a result
}

// turn is the recording of one turn.
type turn struct {
	name    string
	input   string // inputKey of the turn's input
	history string // historyKey of the injected items
	steps   []step // what follows turn/start
	thread  string // recorded id of the thread
	id      string // recorded id of the turn
}

// step is one message of a recording.
type step struct {
	kind    stepKind
	message string
	id      string        // JSON id of the request that is sent or answered
	pause   time.Duration // wait before the message
}

type stepKind int

const (
	sendNotification stepKind = iota
	sendRequest
	sendStartAnswer     // answer to turn/start
	sendInterruptAnswer // answer to turn/interrupt
	sendEnd             // turn/completed
	resume              // of a generated turn, see [Step].Resume
	awaitInterrupt
	awaitAnswer
)

// Load reads all recordings (*.jsonl) of a directory, of app-servers or of requests.
func Load(dir string) (*Transcripts, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no recordings in %s", dir)
	}
	slices.Sort(paths)
	t := &Transcripts{answers: make(map[string]string), refused: make(map[string]gjson.Result)}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := t.add(strings.TrimSuffix(filepath.Base(path), ".jsonl"), text); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
	}
	return t, nil
}

// Names returns the names of the recorded turns.
func (t *Transcripts) Names() []string {
	names := make([]string, len(t.turns))
	for i, turn := range t.turns {
		names[i] = turn.name
	}
	return names
}

// fixed are the methods whose answer is always the recorded one.
var fixed = []string{"initialize", "getAuthStatus", "account/read", "model/list", "thread/start"}

// add reads one recording. All its turns have its name.
func (t *Transcripts) add(name string, text []byte) error {
	entries, err := recorder.Parse(text)
	choices := make(map[int]*reading)
	for _, e := range entries {
		r := choices[e.Choice]
		if r == nil {
			r = &reading{turn: new(turn), asked: make(map[string]string)}
			choices[e.Choice] = r
		}
		message := gjson.ParseBytes(e.Message)
		switch e.Dir {
		case recorder.ToServer:
			r.toServer(name, message)
		case recorder.FromServer:
			r.fromServer(message)
			if method := r.answers; slices.Contains(fixed, method) && t.answers[method] == "" {
				t.answers[method] = message.Get("result").Raw
				t.refused[method] = message.Get("error")
			}
			if r.answers == "turn/start" && r.turn.id != "" {
				t.turns = append(t.turns, r.turn)
			}
		}
	}
	return err
}

// reading is what was read of a choice.
type reading struct {
	turn    *turn             // that was started last
	history string            // historyKey of its thread
	asked   map[string]string // methods of the client's requests by id
	answers string            // method answered by the server's last message
}

func (r *reading) toServer(name string, m gjson.Result) {
	method, id := m.Get("method").Str, m.Get("id").Raw
	if method != "" {
		r.asked[id] = method
	}
	switch method {
	case "thread/start":
		r.history = ""
	case "thread/inject_items":
		r.history += historyKey(m.Get("params.items"))
	case "turn/start":
		r.turn = &turn{name: name, input: inputKey(m.Get("params.input")), history: r.history, thread: m.Get("params.threadId").Str}
	case "turn/interrupt":
		r.turn.steps = append(r.turn.steps, step{kind: awaitInterrupt, id: id})
	case "":
		r.turn.steps = append(r.turn.steps, step{kind: awaitAnswer, id: id})
	}
}

func (r *reading) fromServer(m gjson.Result) {
	r.answers = ""
	s := step{message: m.Raw, id: m.Get("id").Raw}
	switch method := m.Get("method").Str; {
	case method != "" && s.id != "":
		s.kind = sendRequest
	case method == turnCompleted:
		s.kind = sendEnd
	case method != "":
		s.kind = sendNotification
	default:
		r.answers = r.asked[s.id]
		switch r.answers {
		case "turn/start":
			s.kind = sendStartAnswer
			r.turn.id = m.Get("result.turn.id").Str
		case "turn/interrupt":
			s.kind = sendInterruptAnswer
		default:
			return // such calls are answered without a recording
		}
	}
	r.turn.steps = append(r.turn.steps, s)
}

// find returns the recording for a turn; see the package documentation.
func (t *Transcripts) find(input, history, fallback string) *turn {
	var sameInput, named *turn
	for _, turn := range t.turns {
		if turn.input == input && turn.history == history {
			return turn
		}
		if turn.input == input && turn.history == "" && sameInput == nil {
			sameInput = turn
		}
		if turn.name == fallback {
			named = turn
		}
	}
	if sameInput != nil {
		return sameInput
	}
	return named
}
