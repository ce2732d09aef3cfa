package gateway

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// TestRecording checks that a recording has all kinds of entries, in the order in which they came.
func TestRecording(t *testing.T) {
	r := recorder.New(nil)
	g := newGateway(newFakeUpstream(t, fakecodex.Options{Default: "text"}), Options{MaxConcurrent: 1, Recorder: r, Record: recorder.Rule{Mode: recorder.All}})
	req := posting("/v1/chat/completions", `{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"Hello"}]}`)
	req.Header.Set("X-Request-Id", "recorded")
	g.Serve(Find("/v1/chat/completions"), httptest.NewRecorder(), req)
	entries := recordingOf(t, r, "recorded")
	seen := make(map[recorder.Dir]int)
	at := recorder.Millis(0)
	for _, e := range entries {
		seen[e.Dir]++
		if e.At < at && e.Dir != recorder.ToClient { // a write has the time of its begin
			t.Errorf("%+v comes before what was recorded before it", e)
		}
		at = e.At
	}
	for _, dir := range []recorder.Dir{recorder.FromClient, recorder.ToServer, recorder.FromServer, recorder.Read, recorder.Parts, recorder.ToClient, recorder.Noted} {
		if seen[dir] == 0 {
			t.Errorf("the recording has no entry %s", dir)
		}
	}
	if entries[0].Dir != recorder.FromClient || entries[len(entries)-1].Dir != recorder.End {
		t.Errorf("the recording begins with %+v and ends with %+v", entries[0], entries[len(entries)-1])
	}
}

// recordingOf waits for the recording of a request.
func recordingOf(t *testing.T, r *recorder.Recorder, id string) []recorder.Entry {
	t.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(time.Millisecond) {
		if found := r.Find(id, func(string) bool { return true }); found != nil {
			entries, err := recorder.Parse(found.Text())
			if err != nil {
				t.Fatal(err)
			}
			return entries
		}
	}
	t.Fatalf("there is no recording of %s", id)
	return nil
}
