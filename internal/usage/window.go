package usage

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// PlanWindow is a window of a meter of a login's plan, as the provider last described it.
type PlanWindow struct {
	Login  string  `json:"login"`          // the same at all nodes
	Meter  string  `json:"meter"`          // the meter's limit id
	Length int64   `json:"window_seconds"` // more than 0
	Resets int64   `json:"resets_at"`      // in Unix seconds, as told of a whole minute
	Used   float64 `json:"used_percent"`   // 100: spent
}

func (w *PlanWindow) continues(v *PlanWindow) bool {
	return w.Login == v.Login && w.Meter == v.Meter && w.Length == v.Length
}

// Cost returns what a turn weighs in the windows of a plan: 1 for a cached input token, 10 for another
// one, 80 for an output token, the ratios of OpenAI's prices for credits.
func Cost(u codexrpc.Usage) int64 {
	return 10*max(0, u.InputTokens-u.CachedInputTokens) + u.CachedInputTokens + 80*u.OutputTokens
}

const (
	maxWindows = 300 // of all meters
	maxLast    = 12  // lengths of a window that the ones before it are kept
)

// window is what a book knows of a window. Two of the same window can be merged in any order. Used is the
// highest use that was told. Slots are hundredths of the window's length, counted from 1970.
type window struct {
	PlanWindow
	UsedAt  int64             `json:"used_at"`  // when Used was told, in Unix seconds
	First   float64           `json:"first"`    // the use that was told first
	FirstAt int64             `json:"first_at"` // when First was told
	Told    map[int64]float64 `json:"told"`     // by slot: the highest use that was told in it
	Ran     map[int64]float64 `json:"ran"`      // by slot: 1 if turns of this server ran in it
	Costs   map[string]*int64 `json:"costs"`    // by the name of Record.keyName
	// Untold is the part of Costs since the use was last told.
	Untold int64 `json:"untold,omitempty"`
}

func (w *window) slot(at int64) int64 { return at * 100 / w.Length }

// windowsOf returns what a record says about windows.
func windowsOf(r *Record) (windows []*window) {
	begin, end := r.Time.Add(-r.Duration).Unix(), r.Time.Unix()
	for _, p := range r.Windows {
		w := &window{PlanWindow: p}
		if r.Told {
			w.UsedAt, w.First, w.FirstAt, w.Told = end, p.Used, end, map[int64]float64{w.slot(end): p.Used}
		} else if cost := Cost(r.Usage); cost > 0 {
			w.Untold, w.Ran, w.Costs = cost, make(map[int64]float64), map[string]*int64{r.keyName(): &cost}
			for s := w.slot(min(end, max(begin, p.Resets-p.Length))); s <= w.slot(end); s++ {
				w.Ran[s] = 1
			}
		}
		windows = append(windows, w)
	}
	return windows
}

// explained returns how many percent turns of this server have used: the steps of the use that were told in a
// slot in which they ran, or in the next one. The use before the first one told may be anybody's.
func (w *window) explained() (sum float64) {
	highest := w.First
	for _, slot := range slices.Sorted(maps.Keys(w.Told)) {
		if step := w.Told[slot] - highest; step > 0 {
			sum += step * max(w.Ran[slot], w.Ran[slot-1])
			highest = w.Told[slot]
		}
	}
	return sum
}

// isSame reports whether v is the same window, unless one endedBefore the other. Resets vary by seconds, and that of a
// window of which nothing is used may move until it begins.
func (w *window) isSame(v *window) bool {
	if v.Resets < w.Resets {
		w, v = v, w
	}
	apart, varies := v.Resets-w.Resets, min(max(60, w.Length/50), 300)
	return w.continues(&v.PlanWindow) && (apart <= varies || w.Used == 0 && apart < w.Length-varies)
}

// endedBefore reports whether v has begun though w's reset has not passed: the use that was told later is far lower.
func (w *window) endedBefore(v *window) bool {
	return w.UsedAt > 0 && v.FirstAt > w.UsedAt && v.First < w.Used/2-2
}

// merge adds v, for which isSame is true, to w. If one endedBefore the other, only the later one remains.
func (w *window) merge(v *window) {
	switch {
	case v.endedBefore(w):
		return
	case w.endedBefore(v): // shares of keys are counted by the reset, so it changes
		*w = window{PlanWindow: PlanWindow{w.Login, w.Meter, w.Length, w.Resets + 1, 0}, Told: make(map[int64]float64), Ran: make(map[int64]float64)}
	}
	if w.Used == 0 {
		w.Resets = max(w.Resets, v.Resets) // once it has begun, its reset stays
	}
	if len(v.Told) > 0 {
		if w.UsedAt == 0 || v.Used > w.Used {
			w.Used, w.UsedAt = v.Used, v.UsedAt
		}
		if w.FirstAt == 0 || v.FirstAt < w.FirstAt {
			w.First, w.FirstAt = v.First, v.FirstAt
		}
		w.Untold = 0
	}
	w.Untold += v.Untold
	first, last := w.slot(w.Resets-w.Length)-3, w.slot(w.Resets)
	for _, m := range [...][2]map[int64]float64{{w.Told, v.Told}, {w.Ran, v.Ran}} {
		for slot, value := range m[1] {
			m[0][slot] = max(m[0][slot], value)
		}
		maps.DeleteFunc(m[0], func(slot int64, _ float64) bool { return slot < first || slot > last })
	}
	for key, c := range v.Costs {
		*entryOf(&w.Costs, key, maxKeys) += *cmp.Or(c, new(int64))
	}
}

// addWindows merges more, which may be from a stored document, into windows, the oldest of which come first.
func addWindows(windows, more []*window) []*window {
	for _, w := range more {
		if w == nil || w.Length <= 0 {
			continue
		}
		i := slices.IndexFunc(windows, w.isSame)
		if i < 0 {
			windows = slices.DeleteFunc(windows, func(v *window) bool {
				return v.continues(&w.PlanWindow) && (v.Resets <= w.Resets-maxLast*w.Length || v.Used == 0 && v.Resets < w.Resets)
			})
			i = len(windows)
			windows = append(windows, &window{PlanWindow: w.PlanWindow, Told: make(map[int64]float64), Ran: make(map[int64]float64)})
		}
		windows[i].merge(w)
	}
	slices.SortFunc(windows, func(a, b *window) int { return cmp.Compare(a.Resets, b.Resets) })
	return windows[max(0, len(windows)-maxWindows):]
}

func (w *window) cost() (sum float64) {
	for _, c := range w.Costs {
		sum += float64(*c)
	}
	return sum
}

// capacity returns what 100 % of a window of w's meter and length cost, by the latest one of which turns have
// used enough: providers tell whole percents. 0: not known.
func capacity(windows []*window, w *PlanWindow) int64 {
	for _, known := range slices.Backward(windows) {
		if known.continues(w) && known.explained() >= 5 {
			return int64((known.cost() - float64(known.Untold)) * 100 / known.explained())
		}
	}
	return 0
}

// WindowUsage is a window of a plan and who has used it: the percents of ByKey and Others add up to Used.
type WindowUsage struct {
	PlanWindow
	ByKey  map[string]float64 `json:"by_key"`         // by the names of [Account].ByKey
	Others float64            `json:"others_percent"` // by keys that the caller may not see, and by other programs
}

// usage returns who has used the window: keys share what turns have used by what their turns cost.
func (w *window) usage(visible func(key string) bool) WindowUsage {
	u := WindowUsage{w.PlanWindow, make(map[string]float64), w.Used}
	for key, c := range w.Costs {
		if key != others && visible(key) {
			u.ByKey[key] = w.explained() * float64(*c) / w.cost()
			u.Others = max(0, u.Others-u.ByKey[key])
		}
	}
	return u
}

// PlanWindows returns the windows of a meter of a login's plan, without those that are over, whose length or reset is
// not known, or that have the name of another. The meter may be nil.
func PlanWindows(login string, m *codexrpc.Meter, now time.Time) (windows []PlanWindow) {
	all := m.Windows()
	for i, w := range all {
		length, resets := int64(w.Window/time.Second), (w.ResetsAt.Unix()+59)/60*60 // providers' resets vary by seconds
		if length > 0 && !w.ResetsAt.IsZero() && !w.Over(now) && (i == 0 || w.Name() != all[0].Name()) {
			windows = append(windows, PlanWindow{login, m.ID, length, resets, w.UsedPercent})
		}
	}
	return windows
}

// Known is what is known of a window. Its Resets is the same at all nodes, and differs from those of all other windows.
type Known struct {
	PlanWindow
	Whole int64            // what 100 % of it cost, in the units of [Cost]; 0: not known
	Costs map[string]int64 // what the turns of each key have cost in it
}

// Known returns what is known of a window that was told or, if another node was told of a later one, of that one.
func (b *Book) Known(w PlanWindow) Known {
	b.mu.Lock()
	defer b.mu.Unlock()
	return knownOf(b.windows, w)
}

// Known does what [Book.Known] does, for all nodes, with what this node has last read.
func (s *Shared) Known(w PlanWindow) Known {
	s.mu.Lock()
	defer s.mu.Unlock()
	return knownOf(s.windows, w)
}

func knownOf(windows []*window, w PlanWindow) Known {
	asked, known := &window{PlanWindow: w}, Known{w, capacity(windows, &w), nil}
	for _, v := range windows {
		if v.isSame(asked) || v.continues(&w) && v.Resets > w.Resets {
			known.PlanWindow, known.Costs = v.PlanWindow, make(map[string]int64)
			for key, c := range v.Costs {
				known.Costs[key] = *c
			}
		}
	}
	return known
}
