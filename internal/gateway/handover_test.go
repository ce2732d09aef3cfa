package gateway

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/reqbody"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// TestHandOver: as soon as Codex has a request, its body takes no memory any
// more, unless the response is kept with it, but for what the answer repeats.
func TestHandOver(t *testing.T) {
	filler := strings.Repeat("x", 8<<20)
	serve := playing(transcripts(t), fakecodex.Options{Default: "text"})
	u := newServedUpstream(t, func(in io.Reader, out io.Writer) { serve(without(filler, in), out) })
	chat := `{"model":"m","messages":[{"role":"user","content":"` + filler + `"},{"role":"assistant","content":"y"},{"role":"user","content":"z"}]}`
	response := `{"model":"m","store":false,"input":"` + filler + `"}`
	for name, c := range map[string]struct {
		body, path string
		kept       bool
	}{
		"chat":             {chat, chatPath, false},
		"response":         {response, responsesPath, false},
		"response to keep": {strings.Replace(response, "false", "true", 1), responsesPath, true},
	} {
		observer := new(witness)
		g := newGateway(u, Options{MaxConcurrent: 1, Observer: observer, Responses: failingStore(nil), Instructions: conversation.InstructionsReplace})
		g.bodies = reqbody.NewPool(1<<30, 32<<20, claims.NewCrowd(nil))
		before := heap()
		looked := false
		observer.began = func() {
			looked = true
			if g.bodies.Copying() != 0 {
				t.Errorf("%s: it is still being copied", name)
			}
			if held := g.bodies.Held(); (held > 4<<10) != c.kept {
				t.Errorf("%s: %d bytes are claimed", name, held)
			}
			if now := heap(); !c.kept && now > before+int64(len(filler))/2 {
				t.Errorf("%s: the heap has grown by %d bytes", name, now-before)
			}
		}
		w := post(g, c.path, c.body)
		if w.Code != http.StatusOK || !looked {
			t.Errorf("%s: %d %.200s", name, w.Code, w.Body)
		}
		if copying := g.bodies.Copying(); g.bodies.Held() != 0 || copying != 0 {
			t.Errorf("%s: %d bytes are left, %d are being copied", name, g.bodies.Held(), copying)
		}
	}
}

// without removes a text from lines, so that an app-server in this process does not keep it.
func without(text string, from io.Reader) io.Reader {
	r, w := io.Pipe()
	go func() {
		lines := bufio.NewReader(from)
		for {
			line, err := lines.ReadString('\n')
			if err == nil {
				_, err = io.WriteString(w, strings.ReplaceAll(line, text, ""))
			}
			if err != nil {
				_ = w.CloseWithError(err)
				return
			}
		}
	}()
	return r
}

// heap is what is in use of it.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // empties pools
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestHandOverWhenTaken: until it is known that the provider takes instructions in
// the place of Codex's own prompt, with the first output of a turn, a request is
// kept, since it may have to be sent again.
func TestHandOverWhenTaken(t *testing.T) {
	observer := new(witness)
	g := newGateway(newFakeUpstream(t, fakecodex.Options{Default: "text"}), Options{MaxConcurrent: 3, Observer: observer})
	for _, c := range []struct {
		model string
		kept  bool
	}{{"m", true}, {"m", false}, {"n", true}, {"n", false}, {"m", false}} {
		observer.began = func() {
			if held := g.bodies.Held(); (held > 0) != c.kept {
				t.Errorf("%s: %d bytes are claimed", c.model, held)
			}
		}
		w := httptest.NewRecorder()
		seen := &lookingWriter{ResponseRecorder: w, look: func() {
			if held := g.bodies.Held(); held != 0 {
				t.Errorf("%s: %d bytes are claimed at the end", c.model, held)
			}
		}}
		body := `{"model":"` + c.model + `","n":3,"messages":[{"role":"user","content":"q"}]}`
		g.ServeHTTP(seen, posting(chatPath, body))
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %.200s", c.model, w.Code, w.Body)
		}
	}
}

// TestCountHandsOver: a request that was counted takes no memory any more while its client reads the count.
func TestCountHandsOver(t *testing.T) {
	g := newGateway(talkative(t, 1), Options{MaxConcurrent: 1, MaxBody: 4 << 20})
	const path = "/v1/responses/input_tokens"
	post(g, path, `{"model":"m","input":"x"}`) // loads what counts tokens
	request := posting(path, `{"model":"m","input":"`+strings.Repeat("word ", 1<<18)+`"}`)
	before := heap()
	w := &lookingWriter{ResponseRecorder: httptest.NewRecorder()}
	w.look = func() {
		if held, now := g.bodies.Held(), heap(); held != 0 || now > before+1<<19 {
			t.Errorf("%d bytes are claimed, the heap has grown by %d bytes", held, now-before)
		}
	}
	if g.ServeHTTP(w, request); w.Code != http.StatusOK {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
}

// lookingWriter looks before the first write.
type lookingWriter struct {
	*httptest.ResponseRecorder
	look func()
}

func (w *lookingWriter) WriteHeader(status int) {
	w.look()
	w.ResponseRecorder.WriteHeader(status)
}
