package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// meters are those of the plan's logins, which move at random.
type meters struct {
	logins map[string]*planbackend.Login // by CODEX_HOME

	all []*planbackend.Login

	mu                    sync.Mutex
	moves, spent, checked int
	statuses              int           // meters of the status that were compared
	reserve               int           // answers by the reserve
	oldest                time.Duration // the age of what an answer has said
}

// The windows are short, so that some are reset in a run.
const (
	shortWindow   = 10 * time.Minute
	longWindow    = 2 * time.Hour
	shortCapacity = 200_000_000 // what 100 % of it cost
	longCapacity  = 400_000_000
	// resetPause is the shortest time between two resets of a meter: others are one window to Caddy.
	resetPause = longWindow/50 + 10*time.Second
)

// meteredModels are asked for at random. The first is counted by the plan though nobody lists it.
var meteredModels = []string{"gpt-5", "gpt-5.5", planbackend.LunaModel, planbackend.SparkModel}

// newMeters gives the logins of a site all meters.
func newMeters(s *site) (*meters, error) {
	if s.secondLogin == nil {
		return nil, errors.New("-meters needs -login")
	}
	if err := s.model.Plan.AddMeteredModels(); err != nil {
		return nil, err
	}
	m := &meters{logins: map[string]*planbackend.Login{s.model.Home: s.model.Login, s.second: s.secondLogin}}
	for _, login := range []*planbackend.Login{s.model.Login, s.secondLogin} {
		all := planbackend.AllMeters(0)
		for i := range all {
			long := &all[i].Secondary
			if long.Length == 0 {
				long = &all[i].Primary // the reserve's
			} else {
				all[i].Primary = planbackend.Window{Length: shortWindow, Resets: time.Now().Add(shortWindow / 2), Capacity: shortCapacity}
			}
			*long = planbackend.Window{Length: longWindow, Resets: time.Now().Add(longWindow), Capacity: longCapacity}
		}
		login.SetMeters(all)
		m.all = append(m.all, login)
	}
	return m, nil
}

// model returns the model that a request asks for.
func (m *meters) model(r *rand.Rand) string {
	if m == nil {
		return meteredModels[0]
	}
	return meteredModels[r.IntN(len(meteredModels))]
}

// meterOf returns the meter of a model.
func meterOf(model string) string {
	if model == planbackend.SparkModel {
		return planbackend.SparkMeter
	}
	return planbackend.PlanMeter
}

// planSpent are the codes of requests whose meter is spent at all logins, in a Response the second one.
var planSpent = map[string]bool{"insufficient_quota": true, "rate_limit_exceeded": true, "server_error": true}

const (
	// spentSpan is how long a meter stays spent at all logins.
	spentSpan = 8 * time.Second
	// noticeSpan is how long it may take until an early reset is noticed.
	noticeSpan = 75 * time.Second
)

// moving moves the meters until ctx ends: they are used elsewhere, one login's is used up, then those of both
// for a while, then all are reset.
func (s *soak) moving(ctx context.Context, r *rand.Rand) {
	ids := []string{planbackend.PlanMeter, planbackend.SparkMeter}
	began := make(map[string]time.Time)
	for n := 1; pause(ctx, r, time.Second/2, 3*time.Second); n++ {
		login, other := s.meters.all[n%2], s.meters.all[(n+1)%2]
		id := ids[r.IntN(2)]
		s.meters.count(&s.meters.moves)
		if began[id].IsZero() {
			began[id] = time.Now().Add(-resetPause / time.Duration(1+r.IntN(2)))
		}
		switch since := time.Since(began[id]); {
		case since > resetPause:
			s.spendAll(ctx, r, id)
			began[id] = time.Now()
		case since > resetPause/2 && !other.Meter(id).Spent && !login.Meter(id).Spent:
			s.meters.count(&s.meters.spent)
			login.Change(id, func(m *planbackend.Meter) { m.Use(100) })
		default:
			by := 2 * r.Float64()
			login.Change(id, func(m *planbackend.Meter) { m.Primary.Used = min(max(99, m.Primary.Used), m.Primary.Used+by) })
		}
	}
}

// spendAll uses up a meter of all logins for a while. Nobody can serve Spark then; the reserve stands in for the plan.
func (s *soak) spendAll(ctx context.Context, r *rand.Rand, id string) {
	during := s.trouble.begin(spentSpan+noticeSpan, nil, new(int))
	if id == planbackend.SparkMeter {
		during.codes = planSpent
	}
	for _, login := range s.meters.all {
		login.Change(id, func(m *planbackend.Meter) { m.Use(100) })
	}
	pause(ctx, r, spentSpan/2, spentSpan)
	for _, login := range s.meters.all {
		login.Change(id, (*planbackend.Meter).Reset)
	}
	s.trouble.extend(during, noticeSpan)
}

func (m *meters) count(n *int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*n++
}

// window is what is said of a window.
type window struct {
	minutes, used, resets int64
}

// windows returns those of a meter as they are told.
func windows(m planbackend.Meter) (all []window) {
	for _, w := range []planbackend.Window{m.Primary, m.Secondary} {
		if w.Length > 0 {
			all = append(all, window{int64(w.Length / time.Minute), int64(w.Used), w.Resets.Unix()})
		}
	}
	return all
}

// lag is how much later than the back end somebody may tell what it has told.
const lag = 20 * time.Second

// told returns when the back end has told these windows of a meter, and perhaps others, of a login: since the
// time, or last before it. ok is false if it has not.
func told(login *planbackend.Login, id string, said []window, since time.Time) (at time.Time, ok bool) {
	for _, t := range slices.Backward(login.Told()) {
		for _, m := range t.Meters {
			if m.ID == id && !slices.ContainsFunc(said, func(w window) bool { return !slices.Contains(windows(m), w) }) {
				return t.At, true
			}
		}
		if t.At.Before(since) {
			break
		}
	}
	return time.Time{}, false
}

// check compares the headers of an answer with what the back end has told, and returns what is wrong.
func (m *meters) check(model string, began time.Time, response *http.Response) string {
	if m == nil || response.StatusCode != http.StatusOK {
		return ""
	}
	h, id := response.Header, meterOf(model)
	byReserve := h.Get("X-Codex-Luna-Reserve") == "true"
	if byReserve {
		id = planbackend.ReserveMeter
	}
	if got := h.Get("X-Codex-Active-Limit"); got != id {
		return fmt.Sprintf("the answer of %s names the limit %q, not %s", model, got, id)
	}
	var said []window
	for _, place := range []string{"Primary", "Secondary"} {
		number := func(name string) int64 {
			n, _ := strconv.ParseInt(h.Get("X-Codex-"+place+"-"+name), 10, 64) // otherwise nobody has told it
			return n
		}
		if h.Get("X-Codex-"+place+"-Window-Minutes") != "" {
			said = append(said, window{number("Window-Minutes"), number("Used-Percent"), number("Reset-At")})
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checked++
	if byReserve {
		m.reserve++
	}
	for _, login := range m.all {
		if at, ok := told(login, id, said, began.Add(-lag)); ok {
			m.oldest = max(m.oldest, began.Sub(at))
			return ""
		}
	}
	return fmt.Sprintf("the headers say %v of %s, which nobody has told lately", said, id)
}

// watchMeters checks the status until ctx ends.
func (s *soak) watchMeters(ctx context.Context) {
	for r := rand.New(rand.NewPCG(1, 2)); pause(ctx, r, lookEvery, lookEvery); {
		s.checkMeters()
	}
}

// admin reads a document of the admin API. It returns false while that restarts.
func (s *site) admin(path string, into any) bool {
	response, err := rig.AdminClient.Get(s.Admin + path)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return err == nil && response.StatusCode == http.StatusOK && json.Unmarshal(text, into) == nil
}

// checkMeters compares the status with what the back end has told.
func (s *soak) checkMeters() {
	var status struct {
		AppServers []struct {
			Home  string
			Login struct {
				Meters []struct {
					ID      string
					Windows []struct {
						Used   float64   `json:"used_percent"`
						Resets time.Time `json:"resets_at"`
					}
				}
			}
		} `json:"app_servers"`
	}
	began := time.Now()
	if !s.site.admin("/codex/status", &status) {
		return
	}
	for _, a := range status.AppServers {
		login := s.meters.logins[a.Home]
		for _, m := range a.Login.Meters {
			var said []window
			for i, w := range m.Windows {
				minutes := int64(shortWindow / time.Minute)
				if i == 1 || m.ID == planbackend.ReserveMeter {
					minutes = int64(longWindow / time.Minute)
				}
				said = append(said, window{minutes, int64(w.Used), w.Resets.Unix()})
			}
			if _, ok := told(login, m.ID, said, began.Add(-lag)); !ok {
				s.counts.fault(fmt.Sprintf("the status says %v of %s of %s, which nobody has told lately", said, m.ID, login.Email))
			}
			s.meters.count(&s.meters.statuses)
		}
	}
}

// awaitMeters waits until the back end has told the present meters, after the traffic.
func (s *soak) awaitMeters() {
	ended := time.Now()
	for time.Since(ended) < quietWait {
		s.checkMeters()
		if !slices.ContainsFunc(s.meters.all, func(l *planbackend.Login) bool {
			told := l.Told()
			return len(told) == 0 || told[len(told)-1].At.Before(ended)
		}) {
			return
		}
		time.Sleep(time.Second)
	}
	s.counts.fault("the status does not ask for the meters")
}

// checkShares checks that the shares of all users of the present windows are what is used of them.
func (s *soak) checkShares() {
	var usage struct {
		Windows []struct {
			Login, Meter string
			Length       int64              `json:"window_seconds"`
			Resets       int64              `json:"resets_at"`
			Used         float64            `json:"used_percent"`
			ByKey        map[string]float64 `json:"by_key"`
			Others       float64            `json:"others_percent"`
		}
	}
	if !s.site.admin("/codex/usage", &usage) {
		s.counts.fault("the usage cannot be read")
		return
	}
	found := 0
	for _, login := range s.meters.all {
		for _, m := range login.Meters() {
			for _, w := range windows(m) {
				for _, u := range usage.Windows {
					if u.Meter != m.ID || u.Length != 60*w.minutes || math.Abs(float64(u.Resets-w.resets)) > float64(u.Length)/50+60 || math.Abs(u.Used-float64(w.used)) > 1 {
						continue
					}
					sum := u.Others
					for _, share := range u.ByKey {
						sum += share
					}
					found++
					fmt.Printf("  %s of %s, %d minutes: %d %% used, by users %v and others %.1f\n", m.ID, login.Email, w.minutes, w.used, u.ByKey, u.Others)
					if math.Abs(sum-float64(w.used)) > 1 {
						s.counts.fault(fmt.Sprintf("%s: the shares are %.2f %% of %d: %+v", m.ID, sum, w.used, u))
					}
					break
				}
			}
		}
	}
	if found < 8 { // of the reserve, nothing may have been told
		s.counts.fault(fmt.Sprintf("only %d windows have shares: %+v, of %+v and %+v", found, usage.Windows, s.meters.all[0].Meters(), s.meters.all[1].Meters()))
	}
}

func (m *meters) report() {
	if m == nil {
		return
	}
	fmt.Printf("  meters: %d moves, %d times spent; %d answers and %d meters of the status compared, %d answers by the reserve; the oldest said what was told %s before\n",
		m.moves, m.spent, m.checked, m.statuses, m.reserve, m.oldest.Round(time.Millisecond))
}
