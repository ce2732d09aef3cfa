package simulation

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

const (
	// leaverText is the text of a request whose client leaves while Codex decodes its image.
	leaverText = "what is in the picture?"
	// leaverMemory is how many MiB Codex needs for decoding the image: 7 bytes for each pixel.
	leaverMemory = 112
)

// leaverBody is the request. Its image has 16 million pixels.
var leaverBody = func() string {
	header := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x10\x00\x00\x00\x10\x00\x08\x02\x00\x00\x00")
	header = binary.BigEndian.AppendUint32(header, crc32.ChecksumIEEE(header[12:]))
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}},{"type":"text","text":%q}]}]}`,
		base64.StdEncoding.EncodeToString(header), leaverText)
}()

// addLeavers adds clients that leave while Codex decodes, and goes on, to one plan in eight. These
// have no faults: a claim for an ended app-server may be given back before its double notices.
func (p *plan) addLeavers() {
	random := rand.New(rand.NewPCG(p.Seed, 13))
	if random.IntN(8) > 0 {
		return
	}
	p.Lives, p.Events = nil, nil
	p.Linger = time.Duration(1+random.IntN(90)) * time.Second
	p.Config.Concurrent, p.Config.PerUser = manyTurns, 0
	p.Hogs = append(p.Hogs, hog{
		At: time.Duration(random.IntN(3000)) * time.Millisecond, For: time.Duration(1+random.IntN(40)) * time.Second,
		What: hogLeavers, Count: 1 + random.IntN(20), HTTP2: random.IntN(2) == 0,
	})
}

// leave asks about an image, and leaves after a moment.
func (r *run) leave(ctx context.Context, client *http.Client) {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway/v1/chat/completions", strings.NewReader(leaverBody))
	if err != nil {
		panic(err) // the address is a constant
	}
	request.Header.Set("X-User", hogUser)
	answer, err := client.Do(request)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err == nil && answer.StatusCode == http.StatusOK {
		r.fail("a leaver has an answer: %s", text)
	}
}

// decode is a turn in which Codex decodes an image until interrupted, and for the plan's Linger.
func (s *appServer) decode(asked fakecodex.Asked) []fakecodex.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decoding[asked.Thread] = true
	s.run.decoding.Add(1)
	return []fakecodex.Step{{Message: `{"id":0,"result":{"turn":{"id":"` + asked.Turn + `"}}}`}, {Pause: forever}}
}

// decoded records that a turn of [appServer.decode] has ended. The caller holds the lock.
func (s *appServer) decoded(thread string) {
	if s.decoding[thread] {
		delete(s.decoding, thread)
		s.run.decoding.Add(-1)
	}
}
