package faults

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
)

// TestClientsLeaveWhileCodexDecodes checks that Codex decodes one large image at a time, also after
// the clients have left: one image takes all the memory that requests may use.
func TestClientsLeaveWhileCodexDecodes(t *testing.T) {
	e2e.WaitFor(t, "the app-servers of other tests to end", func() bool { return len(e2e.AppServers()) == 0 })
	place := e2e.NewUnstarted(t)
	r := place.RunFile(place.Caddyfile("max_queue 8 1m"))
	r.WaitUp()
	if answer, text := r.Post(e2e.ChatBody("say:ready", nil), nil); answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status, text)
	}
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

// ownMemory returns the memory of a process without the pages of its program, in bytes; 0 after its
// end.
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

// largePNG returns a black PNG of 8192 by 8192 pixels. mark is in its first pixel, so that Codex
// decodes each image anew.
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
