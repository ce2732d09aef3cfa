package marathon

import (
	"fmt"
	"sync"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// Counts are what the model has counted of a session, in tokens where they are not requests.
type Counts struct {
	// Requests of the session, Summaries of its history, and requests that were Refused as too long.
	Requests, Summaries, Refused int
	// Pushed is by how much the requests have grown.
	Pushed int
	// Input is that of all requests but the first ones of a new history, of which Cached were sent before.
	Input, Cached int
	// SummaryInput and SummaryCached are the same of the requests for summaries.
	SummaryInput, SummaryCached int
	// Largest is the largest request.
	Largest int
}

// Share returns the share in percent that a cache would have had; 100 of nothing.
func share(cached, input int) float64 {
	if input == 0 {
		return 100
	}
	return 100 * float64(cached) / float64(input)
}

// CachedShare is that of the session's requests in percent, SummaryShare that of its summaries.
func (c Counts) CachedShare() float64  { return share(c.Cached, c.Input) }
func (c Counts) SummaryShare() float64 { return share(c.SummaryCached, c.SummaryInput) }

func (c Counts) String() string {
	return fmt.Sprintf("%d tokens in %d requests, %d summaries, %d refused; %.1f%% cached, %.1f%% of summaries",
		c.Pushed, c.Requests, c.Summaries, c.Refused, c.CachedShare(), c.SummaryShare())
}

// meter counts what a model is asked.
type meter struct {
	stop func()

	mu       sync.Mutex
	now      Counts
	previous int  // tokens of the request before
	begun    bool // the history is not new
}

func observe(model *scriptedmodel.Server) *meter {
	m := new(meter)
	m.stop = model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		m.add(r)
		return scriptedmodel.Script{}, false
	})
	return m
}

func (m *meter) counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// add counts a request. One without tools is not the session's, but such as asks for a title.
func (m *meter) add(r scriptedmodel.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &m.now
	switch {
	case r.Tokens > r.Window:
		c.Refused++
		return
	case r.IsCompaction() || r.AsksForSummary():
		c.Summaries++
		c.SummaryInput, c.SummaryCached = c.SummaryInput+r.Tokens, c.SummaryCached+r.Cached
		m.begun = false
	case len(r.ClientTools()) == 0:
		return
	default:
		c.Requests++
		if m.begun {
			c.Input, c.Cached = c.Input+r.Tokens, c.Cached+r.Cached
		}
		c.Pushed += max(0, r.Tokens-m.previous)
		m.previous, m.begun = r.Tokens, true
	}
	c.Largest = max(c.Largest, r.Tokens)
}
