package gateway

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// asking returns a request of a user without a body.
func asking(t *testing.T, g *Gateway, user string) *exchange {
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(""))
	r.Header.Set("User", user)
	x := g.newExchange(httptest.NewRecorder(), r)
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
			g := newGateway(nil, Options{MaxConcurrent: 1, Memory: NewMemory(200 << 20)})
			x := asking(t, g, "a")
			decoding, apiErr := g.claimMemory(x, c.size<<20, c.choices, c.tools, c.pixels)
			if (apiErr != nil) != (c.refused != "") || apiErr != nil && (apiErr.Param != "n" || !strings.Contains(apiErr.Message, c.refused)) {
				t.Fatal(apiErr)
			}
			if got := g.memory.queue.Running(); got != c.while {
				t.Errorf("%d MiB are claimed", got)
			}
			for range c.choices {
				if ended := decoding.choiceDone(); ended != nil {
					if got := g.memory.queue.Running(); got != c.while {
						t.Errorf("%d MiB while an image is being decoded", got)
					}
					ended()
					ended()
				}
			}
			if got := g.memory.queue.Running(); got != c.after {
				t.Errorf("%d MiB are claimed afterwards", got)
			}
			x.close()
			if got := g.memory.queue.Running(); got != 0 {
				t.Errorf("%d MiB are left", got)
			}
		})
	}
}

// TestMemoryIsShared checks that a user who wants all memory of the app-servers leaves some to
// others, and that who waits gets it as soon as there is some.
func TestMemoryIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(nil, Options{MaxConcurrent: 1, MaxQueue: 2, QueueWait: time.Minute, Memory: NewMemory(400 << 20), Several: func() bool { return true }})
		first := asking(t, g, "a")
		if _, apiErr := g.claimMemory(first, 60<<20, 1, 0, 0); apiErr != nil {
			t.Fatal(apiErr)
		}
		began := time.Now()
		if _, apiErr := g.claimMemory(asking(t, g, "a"), 20<<20, 1, 0, 0); apiErr == nil || apiErr.Code != "codex_queue_timeout" || time.Since(began) != time.Minute {
			t.Errorf("above the share: %v after %s", apiErr, time.Since(began))
		}
		began = time.Now()
		if _, apiErr := g.claimMemory(asking(t, g, "b"), 20<<20, 1, 0, 0); apiErr != nil || time.Since(began) > 0 {
			t.Errorf("another user: %v after %s", apiErr, time.Since(began))
		}
		time.AfterFunc(time.Second, first.close)
		if _, apiErr := g.claimMemory(asking(t, g, "a"), 20<<20, 1, 0, 0); apiErr != nil || time.Since(began) != time.Second {
			t.Errorf("once there is some: %v after %s", apiErr, time.Since(began))
		}
	})
}

// TestMemoryOfSeveralGateways checks that gateways with the same app-servers share their memory,
// and its users.
func TestMemoryOfSeveralGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory(400 << 20)
		options := Options{MaxConcurrent: 1, QueueWait: time.Minute, Memory: memory}
		before, after := newGateway(nil, options), newGateway(nil, options)
		if _, apiErr := before.claimMemory(asking(t, before, "a"), 30<<20, 1, 0, 0); apiErr != nil {
			t.Fatal(apiErr)
		}
		if _, apiErr := after.claimMemory(asking(t, after, "b"), 30<<20, 1, 0, 0); apiErr != nil {
			t.Fatal(apiErr)
		}
		if got := before.Held().Codex; got != 300 {
			t.Errorf("%d MiB are claimed", got)
		}
		began := time.Now()
		if _, apiErr := after.claimMemory(asking(t, after, "c"), 30<<20, 1, 0, 0); apiErr == nil || apiErr.Code != "codex_queue_timeout" || time.Since(began) != time.Minute {
			t.Errorf("above what there is: %v after %s", apiErr, time.Since(began))
		}
	})
}
