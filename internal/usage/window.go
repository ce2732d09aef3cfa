package usage

import (
	"cmp"
	"maps"
	"slices"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// PlanWindow is a window of a meter of a login's plan, as the provider last described it.
type PlanWindow struct {
	Login  string  `json:"login"`          // the same at all nodes, and after a restart
	Meter  string  `json:"meter"`          // the meter's limit id
	Length int64   `json:"window_seconds"` // more than 0
	Resets int64   `json:"resets_at"`      // Unix time in seconds, of a whole minute
	Used   float64 `json:"used_percent"`   // 100: spent
}

// continues reports whether w and v are windows of the same meter and length.
func (w *PlanWindow) continues(v *PlanWindow) bool {
	return w.Login == v.Login && w.Meter == v.Meter && w.Length == v.Length
}

// Cost returns what a turn weighs in the windows of a plan: 1 for a cached input token, 10 for another
// one, 80 for an output token. These are the ratios of OpenAI's prices for credits.
func Cost(u codexrpc.Usage) int64 {
	return 10*max(0, u.InputTokens-u.CachedInputTokens) + u.CachedInputTokens + 80*u.OutputTokens
}

// The bounds of the windows of a [Book].
const (
	maxWindows = 500 // of all meters
	maxLast    = 12  // of a meter and length
	maxKeys    = 200 // keys with a cost of their own; further keys share one
)

// graceTime is how long a provider may take to count a turn, in seconds.
const graceTime = 60

// window is what a book knows of a window of a plan. Windows can be merged in any order. Used is the
// highest use that was told.
type window struct {
	PlanWindow
	Told   map[int]told      `json:"told,omitempty"`   // by whole percent
	Active [][2]int64        `json:"active,omitempty"` // when turns ran: begins and ends in Unix seconds, in order, apart
	Costs  map[string]*int64 `json:"costs,omitempty"`  // by key
	// Closed is the result of explained, once Told and Active were dropped. nil: they were not.
	Closed *float64 `json:"explained,omitempty"`
}

// told is a use that was told. The times are in Unix seconds.
type told struct {
	Used  float64 `json:"used"`
	First int64   `json:"first"`
	Last  int64   `json:"last"`
}

// explained returns how many percent of the window were used by turns of this server: the sum of the steps
// of its use during which, or shortly before which, such turns ran.
func (w *window) explained() (sum float64) {
	if w.Closed != nil {
		return *w.Closed
	}
	steps := slices.SortedFunc(maps.Values(w.Told), func(a, b told) int { return cmp.Compare(a.First, b.First) })
	var highest float64
	var last int64 // when a use before the step was last told
	for i, step := range steps {
		if i == 0 {
			last = step.First // it is not known since when this use is there
		}
		last = min(last, step.First)
		ran := func(s [2]int64) bool { return s[0] <= step.First && s[1] >= min(last, step.First-graceTime) }
		if step.Used > highest {
			if slices.ContainsFunc(w.Active, ran) {
				sum += step.Used - highest
			}
			highest = step.Used
		}
		last = max(last, step.Last)
	}
	return sum
}

// cost returns the sum of Costs.
func (w *window) cost() (sum int64) {
	for _, c := range w.Costs {
		sum += *c
	}
	return sum
}

// isSame reports whether v is the same window as w, though providers' times of resets vary a little.
// A window of which nothing is used may not have begun: its reset moves until it has.
func (w *window) isSame(v *window) bool {
	first, last := w, v
	if v.Resets < w.Resets {
		first, last = v, w
	}
	apart, jitter := last.Resets-first.Resets, w.Length/50
	return w.continues(&v.PlanWindow) && (apart <= jitter || first.Used == 0 && apart < w.Length-jitter)
}

// merge adds v, which is the same window, to w.
func (w *window) merge(v *window) {
	if min(w.Used, v.Used) == 0 { // one of them may not have begun
		w.Resets = max(w.Resets, v.Resets)
	}
	w.Used = max(w.Used, v.Used)
	for key, c := range v.Costs {
		if c != nil {
			*entryOf(&w.Costs, key, maxKeys, otherName) += *c
		}
	}
	if v.Closed != nil && (w.Closed == nil || *w.Closed < *v.Closed) {
		w.Closed = new(*v.Closed)
	}
	if w.Closed != nil {
		w.Told, w.Active = nil, nil
		return
	}
	for percent, t := range v.Told {
		if known, ok := w.Told[percent]; ok {
			t = told{max(t.Used, known.Used), min(t.First, known.First), max(t.Last, known.Last)}
		} else if w.Told == nil {
			w.Told = make(map[int]told)
		}
		w.Told[percent] = t
	}
	w.addActive(v.Active)
}

// addActive adds times when turns ran. It joins those between which there is hardly any time.
func (w *window) addActive(times [][2]int64) {
	all := append(w.Active, times...)
	slices.SortFunc(all, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	w.Active = all[:0]
	for _, s := range all {
		n := len(w.Active) - 1
		switch {
		case s[1] < w.Resets-w.Length-w.Length/50: // before the window
		case n >= 0 && s[0] <= w.Active[n][1]+max(graceTime, w.Length/500):
			w.Active[n][1] = max(w.Active[n][1], s[1])
		default:
			w.Active = append(w.Active, s)
		}
	}
}

// addWindow adds w to windows, which are in order, and returns them without those that are too many.
func addWindow(windows []*window, w *window) []*window {
	if i := slices.IndexFunc(windows, w.isSame); i >= 0 {
		windows[i].merge(w)
		return windows
	}
	added := &window{PlanWindow: w.PlanWindow}
	added.merge(w)
	windows = append(windows, added)
	slices.SortFunc(windows, func(a, b *window) int {
		return cmp.Or(cmp.Compare(a.Login, b.Login), cmp.Compare(a.Meter, b.Meter), cmp.Compare(a.Length, b.Length), cmp.Compare(a.Resets, b.Resets))
	})
	later := 0 // windows of the same meter and length
	for i := len(windows) - 2; i >= 0; i-- {
		if later++; !windows[i].continues(&windows[i+1].PlanWindow) {
			later = 0
		}
		if w := windows[i]; later > 1 && w.Closed == nil { // no turn of it can still end
			w.Closed, w.Told, w.Active = new(w.explained()), nil, nil
		}
		if later >= maxLast {
			windows = slices.Delete(windows, i, i+1)
			break
		}
	}
	if len(windows) > maxWindows {
		oldest := slices.MinFunc(windows, func(a, b *window) int { return cmp.Compare(a.Resets, b.Resets) })
		windows = slices.DeleteFunc(windows, func(w *window) bool { return w == oldest })
	}
	return windows
}

// addWindows adds all of more, which may be from a stored document, to windows.
func addWindows(windows, more []*window) []*window {
	for _, w := range more {
		if w != nil && w.Length > 0 {
			windows = addWindow(windows, w)
		}
	}
	return windows
}

// turnWindows returns the windows of a turn with what it cost in each.
func turnWindows(r *Record) (windows []*window) {
	cost := Cost(r.Usage)
	if cost == 0 {
		return nil
	}
	end := r.Time.Unix()
	for _, w := range r.Windows {
		begin := max(r.Time.Add(-r.Duration).Unix(), min(w.Resets-w.Length, end))
		windows = append(windows, &window{PlanWindow: w, Active: [][2]int64{{begin, end}}, Costs: map[string]*int64{r.keyName(): new(cost)}})
	}
	return windows
}

// toldWindows returns windows with their use as told at a time.
func toldWindows(windows []PlanWindow, now int64) (observed []*window) {
	for _, w := range windows {
		observed = append(observed, &window{PlanWindow: w, Told: map[int]told{int(w.Used): {w.Used, now, now}}})
	}
	return observed
}

// minExplained is how many percent have to be explained before they tell what a window holds: providers
// report whole percents.
const minExplained = 5

// capacity returns what 100 % of a window of w's login, meter and length cost, by the latest window which
// tells it well or, without one, by the one that tells it best. 0: not known.
func capacity(windows []*window, w *PlanWindow) (units int64) {
	var most float64
	for _, known := range slices.Backward(windows) {
		if explained := known.explained(); known.continues(w) && explained > most && most < minExplained {
			most, units = explained, int64(float64(known.cost())*100/explained)
		}
	}
	return units
}
