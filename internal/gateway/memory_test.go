package gateway

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

func asking(t *testing.T, g *Gateway, user string) *exchange {
	x := g.newExchange(httptest.NewRecorder(), requestOf(user).WithContext(t.Context()))
	t.Cleanup(x.close)
	return x
}

// TestClaimMemory checks what requests claim of the memory of the app-servers.
func TestClaimMemory(t *testing.T) {
	for name, c := range map[string]struct {
		size, choices, tools, pixels int64
		while, after                 int // in MiB, while the images are decoded and afterwards
		refused                      string
	}{
		"small":                          {0, 1, 0, 0, 0, 0, ""},
		"one of 10 MiB":                  {10, 1, 0, 0, 50, 50, ""},
		"two choices":                    {10, 2, 0, 0, 100, 100, ""},
		"larger than all":                {60, 1, 0, 0, 200, 200, ""},
		"choices that are too large":     {10, 5, 0, 0, 0, 0, "at most 4"},
		"one choice of it is too large":  {60, 2, 0, 0, 0, 0, "at most 1"},
		"an image":                       {2, 1, 0, 10 << 20, 80, 10, ""},
		"a small body with an image":     {0, 1, 0, 10 << 20, 70, 0, ""},
		"an image for each choice":       {2, 2, 0, 10 << 20, 160, 20, ""},
		"too many images for one choice": {2, 3, 0, 10 << 20, 0, 0, "at most 2"},
		"tools":                          {2, 1, 2 << 20, 0, 110, 110, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(nil, Options{MaxConcurrent: 1, Memory: claims.NewMemory(200 << 20)})
			x := asking(t, g, "a")
			apiErr := g.claimMemory(x, c.size<<20, c.choices, c.tools, c.pixels)
			if (apiErr != nil) != (c.refused != "") || apiErr != nil && (apiErr.Param != "n" || !strings.Contains(apiErr.Message, c.refused)) {
				t.Fatal(apiErr)
			}
			if got := g.memory.Running(); got != c.while {
				t.Errorf("%d MiB are claimed", got)
			}
			for i := range c.choices {
				if ended := x.memory.choiceDone(int(i)); ended != nil {
					if got := g.memory.Running(); got != c.while {
						t.Errorf("%d MiB while an image is being decoded", got)
					}
					ended()
					ended()
				}
			}
			if got := g.memory.Running(); got != c.after {
				t.Errorf("%d MiB are claimed afterwards", got)
			}
			if ended := x.memory.choiceDone(0); ended != nil { // the turn is started again
				for range 2 {
					undo, err := g.awaitDecoder(t.Context(), x, 0)
					if err != nil || g.memory.Decoders.Running() != 1 {
						t.Fatalf("an image is decoded once more: %v, with %d decoders", err, g.memory.Decoders.Running())
					}
					if _, err := g.awaitDecoder(t.Context(), x, 0); err != nil || g.memory.Decoders.Running() != 1 {
						t.Errorf("with a decoder: %v, with %d decoders", err, g.memory.Decoders.Running())
					}
					undo()
					if _, err := g.awaitDecoder(t.Context(), x, 0); err != nil {
						t.Error(err)
					}
					ended()
					if got := g.memory.Running(); got != c.after || g.memory.Decoders.Running() != 0 {
						t.Errorf("%d MiB are claimed after that", got)
					}
				}
			}
			x.close()
			if got := g.memory.Running(); got != 0 {
				t.Errorf("%d MiB are left", got)
			}
		})
	}
}

// TestMemoryIsShared checks that a user who wants all memory of the app-servers leaves some to
// others, and that who waits gets it as soon as there is some.
func TestMemoryIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(nil, Options{MaxConcurrent: 1, MaxQueue: 2, QueueWait: time.Minute, Memory: claims.NewMemory(400 << 20), Several: func() bool { return true }})
		first := asking(t, g, "a")
		if apiErr := g.claimMemory(first, 60<<20, 1, 0, 0); apiErr != nil {
			t.Fatal(apiErr)
		}
		began := time.Now()
		if apiErr := g.claimMemory(asking(t, g, "a"), 20<<20, 1, 0, 0); apiErr == nil || apiErr.Code != "codex_queue_timeout" || time.Since(began) != time.Minute {
			t.Errorf("above the share: %v after %s", apiErr, time.Since(began))
		}
		began = time.Now()
		if apiErr := g.claimMemory(asking(t, g, "b"), 20<<20, 1, 0, 0); apiErr != nil || time.Since(began) > 0 {
			t.Errorf("another user: %v after %s", apiErr, time.Since(began))
		}
		time.AfterFunc(time.Second, first.close)
		if apiErr := g.claimMemory(asking(t, g, "a"), 20<<20, 1, 0, 0); apiErr != nil || time.Since(began) != time.Second {
			t.Errorf("once there is some: %v after %s", apiErr, time.Since(began))
		}
	})
}

// TestMemoryOfSeveralGateways checks that gateways with the same app-servers share their memory,
// and its users.
func TestMemoryOfSeveralGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := claims.NewMemory(400 << 20)
		options := Options{MaxConcurrent: 1, QueueWait: time.Minute, Memory: memory}
		before, after := newGateway(nil, options), newGateway(nil, options)
		if apiErr := before.claimMemory(asking(t, before, "a"), 30<<20, 1, 0, 0); apiErr != nil {
			t.Fatal(apiErr)
		}
		if apiErr := after.claimMemory(asking(t, after, "b"), 30<<20, 1, 0, 0); apiErr != nil {
			t.Fatal(apiErr)
		}
		if got := before.Held().Codex; got != 300 {
			t.Errorf("%d MiB are claimed", got)
		}
		began := time.Now()
		if apiErr := after.claimMemory(asking(t, after, "c"), 30<<20, 1, 0, 0); apiErr == nil || apiErr.Code != "codex_queue_timeout" || time.Since(began) != time.Minute {
			t.Errorf("above what there is: %v after %s", apiErr, time.Since(began))
		}
	})
}

// TestMemoryIsHeldUntilCodexHasEnded checks that the memory of a request whose client has left is
// held until the app-server has ended the turn, or has ended itself, and that its image keeps the
// only decoder until then.
func TestMemoryIsHeldUntilCodexHasEnded(t *testing.T) {
	const lingers = time.Minute
	header := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x10\x00\x00\x00\x10\x00\x08\x02\x00\x00\x00")
	header = binary.BigEndian.AppendUint32(header, crc32.ChecksumIEEE(header[12:]))
	body := `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
		base64.StdEncoding.EncodeToString(header) + `"}}]}]}`
	for _, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			u := newPlayed(t, func(int) fakecodex.Options {
				return fakecodex.Options{Faults: fakecodex.Faults{Linger: lingers}, Turn: func(a fakecodex.Asked) []fakecodex.Step {
					return append(begun(a), fakecodex.Step{Pause: time.Hour})
				}}
			})
			g := newGateway(u, Options{MaxConcurrent: 1, QueueWait: 2 * lingers})
			g.memory.Decoders = claims.NewQueue(claims.QueueOptions{Concurrent: 1, Queue: 1})
			ask := func(stay time.Duration) {
				ctx, cancel := context.WithTimeout(t.Context(), stay)
				defer cancel()
				answerTo(g, posting(chatPath, body).WithContext(ctx))
			}
			ask(time.Second)
			if held := g.Held(); held.Turns != 0 || held.Codex != 112 || g.memory.Decoders.Running() != 1 {
				t.Errorf("after the client: %+v", held)
			}
			if dies {
				u.process.Stop()
			} else {
				time.Sleep(lingers / 2)
				ask(lingers / 4) // waits for the decoder
				if held := g.Held(); held.Codex != 112 {
					t.Errorf("beside a turn that waits: %+v", held)
				}
				time.Sleep(lingers/4 + time.Second)
			}
			synctest.Wait()
			if held := g.Held(); held != (Held{}) || g.memory.Decoders.Running() != 0 {
				t.Errorf("after the turn: %+v", held)
			}
			u.process.Stop()
		})
	}
}

// talkative is an app-server whose turns say so much, in pieces of a KiB.
func talkative(t testing.TB, pieces int) *fakeUpstream {
	return saying(t, slices.Repeat([]string{textPart(strings.Repeat("0123456789abcde ", 64))}, pieces)...)
}

// TestLargeAnswers: an answer that is put together has a limit, over all its
// choices, and leaves nothing held. A stream of chunks has none.
func TestLargeAnswers(t *testing.T) {
	const pieces, limit = 100, 150 << 10
	u := talkative(t, pieces)
	chat, response := `{"model":"m","messages":[{"role":"user","content":"x"}]`, `{"model":"m","store":false,"input":"x"`
	for name, c := range map[string]struct {
		body, path string
		most       int64
		status     int
		want       string
	}{
		"chat":                      {chat + `}`, chatPath, limit, 200, `"finish_reason":"stop"`},
		"chat, too large":           {chat + `}`, chatPath, limit / 2, 502, `"code":"answer_too_large"`},
		"choices, too large":        {chat + `,"n":2}`, chatPath, limit, 502, `"code":"answer_too_large"`},
		"chat stream":               {chat + `,"stream":true}`, chatPath, 1, 200, "data: [DONE]"},
		"response":                  {response + `}`, responsesPath, limit, 200, `"status":"completed"`},
		"response, too large":       {response + `}`, responsesPath, limit / 2, 502, `"code":"answer_too_large"`},
		"stream":                    {response + `,"stream":true}`, responsesPath, limit, 200, "event: response.completed"},
		"stream, too large":         {response + `,"stream":true}`, responsesPath, limit / 2, 200, "event: response.failed"},
		"stream, at once too large": {response + `,"stream":true}`, responsesPath, 1, 502, `"code":"answer_too_large"`},
	} {
		g := newGateway(u, Options{MaxConcurrent: 2})
		g.maxAnswer = c.most
		w := post(g, c.path, c.body)
		text := w.Body.String()
		if w.Code != c.status || !strings.Contains(text, c.want) || c.status != 200 && w.Header().Get("X-Should-Retry") != "false" {
			t.Errorf("%s: %d %v %.300s … %s", name, w.Code, w.Header(), text, text[max(0, len(text)-300):])
		}
		if held, running := g.answerBudget.Held(), g.queue.Running(); held != 0 || running != 0 {
			t.Errorf("%s: %d bytes are held, %d turns run", name, held, running)
		}
	}
}

// TestAnswersTogether: answers that are put together have a limit together.
func TestAnswersTogether(t *testing.T) {
	g := newGateway(talkative(t, 300), Options{MaxConcurrent: 2})
	g.answerBudget = claims.NewBudget(350<<10, 1<<30, claims.NewCrowd(nil))
	other := g.answerBudget.Claim("a")
	if !other.Grow(150 << 10) {
		t.Fatal("there is no memory")
	}
	ask := func() *httptest.ResponseRecorder { return post(g, chatPath, conversing(userMessage)) }
	if w := ask(); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "codex_answer_memory") || w.Header().Get("Retry-After") == "" {
		t.Errorf("beside another: %d %v %.300s", w.Code, w.Header(), w.Body)
	}
	other.Release()
	if w := ask(); w.Code != http.StatusOK {
		t.Errorf("alone: %d %.300s", w.Code, w.Body)
	}
	if held := g.answerBudget.Held(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}

// TestHeldItems: items count also if they have no text.
func TestHeldItems(t *testing.T) {
	const items = 100
	for name, next := range map[string]func(i int) turn.Output{
		"calls":              func(i int) turn.Output { return turn.Output{Kind: turn.OutputCall, Call: i} },
		"messages":           func(int) turn.Output { return turn.Output{Kind: turn.OutputText, Gap: true} },
		"reasoning":          func(int) turn.Output { return turn.Output{Kind: turn.OutputReasoningEnd} },
		"parts of a summary": func(i int) turn.Output { return turn.Output{Kind: turn.OutputReasoning, Part: i, Gap: true} },
	} {
		h := &answerClaim{claim: claims.NewBudget(1<<30, 1<<30, claims.NewCrowd(nil)).Claim("a"), maxSize: items * itemOverhead}
		for i := range items {
			if o := next(i); h.add(&o) != nil {
				t.Errorf("%s: %d are too many", name, i)
			}
		}
		if o := next(items); h.add(&o) == nil {
			t.Errorf("%s: %d bytes are counted", name, h.size)
		}
	}
}
