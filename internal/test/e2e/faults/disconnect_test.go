package faults

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestDisconnect checks that turns end when their client leaves, at any time.
func TestDisconnect(t *testing.T) { e2e.OverBoth(t, testDisconnect) }

func testDisconnect(t *testing.T) {
	s := e2e.NewSite(t, "")
	for name, c := range map[string]struct {
		prompt string
		stream bool
		until  string // text that the client waits for before it leaves; if empty, it waits for the model's request
		n      int    // choices
	}{
		"before the first token":         {"hang", true, "", 1},
		"before the first token, whole":  {"hang", false, "", 1},
		"in the middle":                  {"say:Half of it; hang", true, "Half", 1},
		"in the middle, whole":           {"say:Half of it; hang", false, "", 1},
		"while a call is being written":  {`tool:localSearch {"query":"x"}; hang`, true, "", 1},
		"while the model is still quiet": {"firstdelay=10m; say:never", true, "", 1},
		"several choices":                {"hang", true, "", 5},
		"several choices, whole":         {"say:Half of it; hang", false, "", 8},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.At(t)
			before := s.Model.Stats()
			ctx, cancel := context.WithCancel(e2e.Context(t))
			defer cancel()
			body := e2e.ChatBody(c.prompt, map[string]any{"stream": c.stream, "n": c.n, "tools": []any{e2e.Tool("localSearch")}})
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				response, err := s.Chat(ctx, body, nil)
				if err != nil {
					return // the client left before the answer
				}
				defer response.Body.Close()
				lines := bufio.NewScanner(response.Body)
				for lines.Scan() {
					if c.until != "" && strings.Contains(lines.Text(), c.until) {
						cancel()
					}
				}
				_ = lines.Err() // it is the cancellation
			}()
			if c.until == "" {
				if _, err := s.Model.Wait(e2e.Context(t), func(now scriptedmodel.Stats) bool { return now.Requests >= before.Requests+c.n }); err != nil {
					t.Fatal(err)
				}
				cancel()
			}
			start := time.Now()
			if err := s.Model.WaitClosed(e2e.Context(t), before.ClosedEarly+c.n); err != nil {
				t.Fatal("the turn was not interrupted:", err)
			}
			t.Logf("interrupted after %s", time.Since(start).Round(time.Millisecond))
			e2e.Receive(t, "the client to leave", gone)
		})
	}
}

// TestClientsLeaveWhileCodexDecodes checks that Codex decodes one large image at a time, also after
// the clients have left: one image takes all the memory that requests may use.
func TestClientsLeaveWhileCodexDecodes(t *testing.T) {
	e2e.WaitFor(t, "the app-servers of other tests to end", func() bool { return len(e2e.AppServers()) == 0 })
	place := e2e.NewUnstarted(t)
	r := place.RunFile(place.Caddyfile("max_queue 8 1m"))
	r.WaitUp()
	r.Served("say:ready")
	codex := e2e.AppServers()[0]
	before := ownMemory(t, codex)
	var peak atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for ctx.Err() == nil {
			peak.Store(max(peak.Load(), ownMemory(t, codex)))
			time.Sleep(5 * time.Millisecond)
		}
	}()
	body := func(mark byte) string {
		return `{"model":"gpt-5","messages":[{"role":"user","content":[{"type":"text","text":"say:seen"},` +
			`{"type":"image_url","image_url":{"url":"data:image/png;base64,` + base64.StdEncoding.EncodeToString(largePNG(mark)) + `"}}]}]}`
	}
	for mark := range byte(4) {
		text := body(mark)
		leaving, leave := context.WithTimeout(t.Context(), 400*time.Millisecond)
		r.PostUntil(leaving, text, nil)
		leave()
	}
	if answer, text := r.Post(body(9), nil); answer.StatusCode != http.StatusOK || !strings.Contains(text, "seen") {
		t.Errorf("%s %s", answer.Status, text)
	}
	// One image needs some 400 MB.
	if grown := peak.Load() - before; grown > 600<<20 || grown < 200<<20 {
		t.Errorf("Codex has used %d MiB more", grown>>20)
	}
	if log := r.Log.String(); strings.Contains(log, "was replaced") || strings.Contains(log, "does not answer") {
		t.Error(log)
	}
}

// ownMemory returns a process's memory without its program, in bytes; 0 after its end.
func ownMemory(t *testing.T, pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, missing := os.Stat("/proc"); missing != nil {
		needs.Missing(t, "the memory of Codex is read in /proc: run this test on Linux")
	}
	_, rest, found := strings.Cut(string(status), "RssAnon:")
	if err != nil || !found {
		return 0
	}
	kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	return kib << 10
}

// largePNG returns a black PNG of 8192 by 8192. mark, its first pixel, makes Codex decode it anew.
func largePNG(mark byte) []byte {
	const side = 8192
	var data bytes.Buffer
	rows := zlib.NewWriter(&data)
	row := make([]byte, 1+3*side)
	row[1] = mark
	for range side {
		_, _ = rows.Write(row)
		row[1] = 0
	}
	_ = rows.Close()
	file := []byte("\x89PNG\r\n\x1a\n")
	chunk := func(kind string, data []byte) {
		file = binary.BigEndian.AppendUint32(file, uint32(len(data)))
		body := append([]byte(kind), data...)
		file = binary.BigEndian.AppendUint32(append(file, body...), crc32.ChecksumIEEE(body))
	}
	header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, side), side)
	chunk("IHDR", append(header, 8, 2, 0, 0, 0))
	chunk("IDAT", data.Bytes())
	chunk("IEND", nil)
	return file
}

// TestHalfClosed checks that a client which has closed its sending side does not get
// what looks like a complete answer. For net/http it has left, but it still reads.
func TestHalfClosed(t *testing.T) {
	s := e2e.NewSite(t, "")
	address := strings.TrimPrefix(s.URL, "http://")
	for name, c := range map[string]struct {
		path, body string
		more       int    // bytes of the Content-Length after the body
		until      string // text that the client waits for before it closes
	}{
		"whole":     {"/v1/chat/completions", e2e.ChatBody("say:Half of it; hang", nil), 0, ""},
		"stream":    {"/v1/chat/completions", e2e.ChatBody("say:Half of it; hang", map[string]any{"stream": true}), 0, "Half"},
		"unbegun":   {"/v1/chat/completions", e2e.ChatBody("hang", map[string]any{"stream": true}), 0, ""},
		"responses": {"/v1/responses", `{"model":"gpt-5","input":"hang"}`, 0, ""},
		"cut body":  {"/v1/chat/completions", `{"model":"gpt-5"`, 100, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := e2e.Context(t)
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			must.OK(t, err)
			defer conn.Close()
			if deadline, ok := ctx.Deadline(); ok {
				must.OK(t, conn.SetDeadline(deadline))
			}
			if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				c.path, address, len(c.body)+c.more, c.body); err != nil {
				t.Fatal(err)
			}
			var begun strings.Builder
			reader := bufio.NewReader(io.TeeReader(conn, &begun))
			for c.until != "" && !strings.Contains(begun.String(), c.until) {
				if _, err := reader.ReadByte(); err != nil {
					t.Fatal(err)
				}
			}
			must.OK(t, conn.(*net.TCPConn).CloseWrite())
			_, _ = io.Copy(io.Discard, reader) // a reset is possible
			got := begun.String()
			switch {
			case c.until != "" && strings.HasSuffix(got, "\r\n0\r\n\r\n"):
				t.Errorf("the stream looks whole:\n%s", got)
			case c.until == "" && strings.HasPrefix(got, "HTTP/1.1 200"):
				t.Errorf("answered:\n%s", got)
			}
		})
	}
}

// streaming is a stream whose first text was read.
type streaming struct {
	*http.Response
	begun string
}

// openStreams opens n streams whose text begins with Half, and reads that of each.
func openStreams(s *e2e.Site, n int, prompt string) []streaming {
	s.T.Helper()
	opened := make([]streaming, n)
	var all sync.WaitGroup
	for i := range opened {
		all.Go(func() {
			response := s.Do(http.MethodPost, "/v1/chat/completions", strings.NewReader(e2e.ChatBody(prompt, map[string]any{"stream": true})), nil)
			opened[i] = streaming{response, e2e.ReadUntil(s.T, response.Body, "Half")}
		})
	}
	all.Wait()
	return opened
}

func rest(s *e2e.Site, of streaming) string { return of.begun + s.Read(of.Response) }
