package gateway

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// pausedWriter is the writer of an answer whose client reads nothing until the test lets it.
type pausedWriter struct {
	*httptest.ResponseRecorder
	begun, goOn chan struct{}
	once        sync.Once
}

func newPaused() *pausedWriter {
	return &pausedWriter{ResponseRecorder: httptest.NewRecorder(), begun: make(chan struct{}), goOn: make(chan struct{})}
}

func (p *pausedWriter) Write(b []byte) (int, error) {
	p.once.Do(func() { close(p.begun) })
	<-p.goOn
	return p.ResponseRecorder.Write(b)
}

// serve lets the client of a request read nothing until the returned function is called, which waits for
// the end.
func (p *pausedWriter) serve(t *testing.T, g *Gateway, r *http.Request) (readAll func()) {
	t.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		g.ServeHTTP(p, r)
	}()
	select {
	case <-p.begun:
	case <-over:
	case <-time.After(patience):
		t.Fatal("nothing is written")
	}
	return func() {
		close(p.goOn)
		<-over
	}
}

// largeInstructions are those of a request, of some 300 KB.
const instructionsSize = 300 << 10

func largeRequest(more string) *http.Request {
	body := fmt.Sprintf(`{"model":"m","input":"x","instructions":%q%s}`, strings.Repeat("x", instructionsSize), more)
	r := posting(responsesPath, body)
	r.Header.Set("User", "a")
	return r
}

// waitingGateway returns a gateway whose turns are short. All answers together may have this many
// bytes.
func waitingGateway(t *testing.T, answers int64) *Gateway {
	t.Helper()
	u := newFakeUpstream(t, fakecodex.Options{Default: "multibyte"})
	g := newGateway(u, Options{MaxConcurrent: 8, Responses: memoryStore(1<<26, time.Hour)})
	g.answerBudget = claims.NewBudget(answers, 0, g.crowd)
	return g
}

func checkNothingHeld(t *testing.T, g *Gateway) {
	t.Helper()
	waitForAll(t, g)
	must.Happen(t, "nothing is held", func() bool { return g.Held() == Held{} }, func() string { return fmt.Sprintf("%+v is left", g.Held()) })
}

// TestSnapshotHeld checks that the answer to a request for a background response holds its place and
// its memory until it is read, also when the response has ended long before, and holds nothing else.
func TestSnapshotHeld(t *testing.T) {
	g := waitingGateway(t, 2*instructionsSize)
	w := newPaused()
	readAll := w.serve(t, g, largeRequest(`,"background":true`))
	waitForAll(t, g)
	must.Happen(t, "the response that has ended holds no turn and no body", func() bool { return g.Held().Turns+g.Held().Codex == 0 && g.Held().Bodies == 0 },
		func() string { return fmt.Sprintf("%+v is held", g.Held()) })
	if held := g.Held(); held.Places != 1 || held.Answers < instructionsSize || held.Answers > instructionsSize+4096 {
		t.Errorf("%+v is held for an answer of %d bytes", held, instructionsSize)
	}
	if refused := answerTo(g, largeRequest(`,"background":true`)); refused.Code != http.StatusServiceUnavailable || !strings.Contains(refused.Body.String(), "codex_answer_memory") {
		t.Errorf("without memory for the answer: %d %.200s", refused.Code, refused.Body)
	}
	if readAll(); w.Code != http.StatusOK || w.Body.Len() < instructionsSize {
		t.Errorf("%d, %d bytes", w.Code, w.Body.Len())
	}
	checkNothingHeld(t, g)
}

// TestFollowersShareMemory checks that followers that do not read hold the memory of the events that
// wait for them, at most what there is, and go on when there is some.
func TestFollowersShareMemory(t *testing.T) {
	const followers, room = 20, 8
	g := waitingGateway(t, room*(instructionsSize+4096))
	id := idIn(t, answerTo(g, largeRequest(`,"background":true`)).Body.String())
	waitForAll(t, g)
	var writers []*pausedWriter
	var all sync.WaitGroup
	for range followers {
		w := newPaused()
		writers = append(writers, w)
		all.Go(func() {
			g.ServeHTTP(w, getAs(t, "a", responsesPath+"/"+id+"?stream=true"))
		})
	}
	stuck := func() (n int) {
		for _, w := range writers {
			select {
			case <-w.begun:
				n++
			default:
			}
		}
		return n
	}
	must.Happen(t, fmt.Sprint(room, " followers get an event"), func() bool { return stuck() >= room }, func() string { return fmt.Sprintf("%d followers got one", stuck()) })
	if held := g.Held(); stuck() != room || held.Answers < room*instructionsSize || held.Answers > room*(instructionsSize+4096) {
		t.Errorf("%d followers have an event, and %+v is held", stuck(), held)
	}
	for _, w := range writers {
		close(w.goOn)
	}
	all.Wait()
	for _, w := range writers {
		if got := w.Body.String(); !strings.HasSuffix(strings.TrimSpace(got[max(0, len(got)-100):]), "}") || strings.Count(got, "event: response.completed") != 1 {
			t.Errorf("a follower got %d bytes: … %s", len(got), got[max(0, len(got)-200):])
		}
	}
	checkNothingHeld(t, g)
}

// TestRepeatedHeld checks that what an answer repeats of the request stays claimed until it is read.
func TestRepeatedHeld(t *testing.T) {
	for name, more := range map[string]string{"whole": "", "stream": `,"stream":true`, "whole, not stored": `,"store":false`, "stream, not stored": `,"stream":true,"store":false`} {
		g := waitingGateway(t, 8*instructionsSize)
		w := newPaused()
		readAll := w.serve(t, g, largeRequest(more))
		if held := g.Held(); held.Places != 1 || held.Bodies < instructionsSize || held.Answers < instructionsSize && !strings.HasPrefix(name, "stream") {
			t.Errorf("%s: %+v is held", name, held)
		}
		if readAll(); w.Code != http.StatusOK || w.Body.Len() < instructionsSize {
			t.Errorf("%s: %d, %d bytes", name, w.Code, w.Body.Len())
		}
		checkNothingHeld(t, g)
	}
}

// waiting are the functions that write bytes, to clients or stores who may be slow, each with the row
// of SECURITY.md that says what is claimed for the bytes that wait meanwhile.
var waiting = map[string]string{
	"gateway.writeJSON":                 "answer in one body",    // only claims.Bytes
	"gateway.Gateway.follow":            "events for a follower", // it gets events only for a claim
	"gateway.responder.write":           "events of a stream",    // it has a claim, or keeps nothing
	"gateway.responder.writeUnread":     "events of a stream",
	"gateway.responder.end":             "events of a stream",
	"sse.Writer.writeBuffer":            "events of a stream",
	"sse.Writer.writePing":              "events of a stream",
	"sse.Writer.WriteEvent":             "events of a stream",
	"gateway.socketWriter.send":         "messages of a WebSocket",
	"gateway.socketConn.read":           "messages of a WebSocket", // which becomes a body
	"gateway.socketConn.answer":         "messages of a WebSocket", // it discards the rest of one
	"gateway.Gateway.writeHealth":       "what is short, or the same for all",
	"gateway.serveStatic":               "what is short, or the same for all",
	"gateway.Gateway.resolve":           "pictures of a request",
	"caddymodule.servePage":             "what is short, or the same for all",
	"caddymodule.writeAdmin":            "what is short, or the same for all",
	"caddymodule.logTurn":               "what is short, or the same for all",
	"caddymodule.serveRecordings":       "what is short, or the same for all", // and recordings that are in memory, to the operator
	"gateway.recordedWriter.Write":      "events of a stream",                 // as what it writes to; the recorder claims what it keeps
	"gateway.recordedEvents.WriteEvent": "events of a stream",
}

// TestWaiting checks that no other function writes bytes, and that each has its row in SECURITY.md.
// Whoever adds one has to say what is claimed for the bytes that wait.
func TestWaiting(t *testing.T) {
	security, err := os.ReadFile("../../SECURITY.md")
	must.OK(t, err)
	var found []string
	for _, dir := range []string{".", "../objects", "../../sse", "../../caddymodule"} {
		found = append(found, writersIn(t, dir)...)
	}
	for _, function := range found {
		if waiting[function] == "" {
			t.Errorf("%s writes bytes: what is claimed for those that wait?", function)
		}
	}
	for function, row := range waiting {
		if !slices.Contains(found, function) {
			t.Errorf("%s writes no bytes", function)
		}
		if !strings.Contains(string(security), "\n| "+row+" | ") {
			t.Errorf("SECURITY.md has no row %q", row)
		}
	}
}

// writes are the methods and functions that write bytes.
var writes = []string{"Write", "WriteString", "WriteData", "WriteEvent", "WriteTo", "ReadFrom", "Copy", "CopyN", "CopyBuffer", "Encode", "Fprint", "Fprintf", "Fprintln", "ServeContent", "ServeFile"}

func writersIn(t *testing.T, dir string) (functions []string) {
	t.Helper()
	for name, function := range functionsOf(t, dir) {
		ast.Inspect(function, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok {
				if method, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(writes, method.Sel.Name) {
					functions = append(functions, name)
				}
			}
			return true
		})
	}
	return functions
}

// functionsOf returns the functions of a directory's package, each as PACKAGE.FUNCTION or as
// PACKAGE.TYPE.METHOD. There are none if there is no such directory.
func functionsOf(t *testing.T, dir string) map[string]*ast.FuncDecl {
	t.Helper()
	functions := make(map[string]*ast.FuncDecl)
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	must.OK(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		must.OK(t, err)
		for _, declared := range file.Decls {
			if function, ok := declared.(*ast.FuncDecl); ok {
				functions[file.Name.Name+"."+receiverOf(function)+function.Name.Name] = function
			}
		}
	}
	return functions
}

// receiverOf returns the type of a method with a dot behind it, or "" for a function.
func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	receiver := f.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	if named, ok := receiver.(*ast.Ident); ok {
		return named.Name + "."
	}
	return ""
}
