package logins

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// ordinary is a model that the plan's meter counts.
const ordinary = "gpt-5.5"

// meterOf maps a model to its meter.
var meterOf = map[string]string{
	ordinary: planbackend.PlanMeter, planbackend.LunaModel: planbackend.PlanMeter,
	planbackend.SparkModel: planbackend.SparkMeter, planbackend.ReserveModel: planbackend.ReserveMeter,
}

// spend uses up a meter, reset gives it back before its time.
func spend(m *planbackend.Meter) { m.Use(100) }

func reset(m *planbackend.Meter) { m.Reset() }

// window is what is told of a window.
type window struct {
	minutes, used, resets int64
}

// told maps meters to their windows.
type told map[string][]window

// codexTells returns what Codex says of the meters of its login.
func codexTells(a *e2e.AppServer) told {
	all := make(told)
	for id, m := range a.RateLimits().Get("rateLimitsByLimitId").Map() {
		for _, place := range []string{"primary", "secondary"} {
			if w := m.Get(place); w.IsObject() {
				all[id] = append(all[id], window{w.Get("windowDurationMins").Int(), w.Get("usedPercent").Int(), w.Get("resetsAt").Int()})
			}
		}
	}
	return all
}

// minutesOf are the windows by their names.
var minutesOf = map[string]int64{"5h": 300, "7d": 10080}

// of returns what is told of a meter.
func (t told) of(id string) told { return told{id: t[id]} }

// meteredSite is a site with a login that has all meters.
type meteredSite struct {
	*e2e.Site
	admin *e2e.Site
	id    string // of the app-server
	// codex is another app-server with the login.
	codex *e2e.AppServer
}

// newMeteredSite starts a site. 100 % of a window cost capacity; 0: answers move no meter. appServer are
// lines of app_server, global ones of the Caddyfile's options.
func newMeteredSite(t *testing.T, capacity int64, appServer, global string) *meteredSite {
	t.Helper()
	e2e.WithLogin(t)
	e2e.OwnTemp(t)
	s := &meteredSite{Site: e2e.NewUnstarted(t)}
	must.OK(t, s.Plan.AddMeteredModels())
	s.Login.SetMeters(planbackend.AllMeters(capacity))
	config := strings.Replace(s.Caddyfile(s.Pool(appServer)+"\nollama on"), "admin off", "admin off\nmetrics\n"+global, 1)
	s.Serve(s.Pool(appServer) + "\nollama on")
	s.admin = s.WithAdmin(config)
	s.WaitReady()
	s.codex = e2e.StartAppServer(t, s.Login)
	s.id = s.admin.Status().AppServers[0].ID
	return s
}

// askLimits makes Codex ask for the limits of a login now, so that a test need not wait until this server does so by
// itself: an attempt to spend a reset credit ends with that question, also if there is no credit.
func askLimits(admin *e2e.Site, id string) {
	admin.T.Helper()
	response, text := admin.Call(http.MethodPost, "/codex/credit?app_server="+id, nil, http.Header{"Idempotency-Key": {"test"}})
	if response.StatusCode != http.StatusOK || gjson.Get(text, "outcome").Str != "no_credit" {
		admin.T.Errorf("asking for the limits: %s %s", response.Status, text)
	}
}

// askLimits makes Codex ask for the limits of the login now.
func (s *meteredSite) askLimits() {
	s.T.Helper()
	askLimits(s.admin, s.id)
}

// status returns what the status says of the login.
func (s *meteredSite) status() gjson.Result {
	s.T.Helper()
	_, text := s.admin.Get("/codex/status")
	return gjson.Get(text, "app_servers.0.login")
}

// statusTells returns the meters of the status.
func (s *meteredSite) statusTells() told {
	s.T.Helper()
	all := make(told)
	for _, m := range s.status().Get("meters").Array() {
		for _, w := range m.Get("windows").Array() {
			resets, _ := time.Parse(time.RFC3339, w.Get("resets_at").Str) // otherwise it differs
			all[m.Get("id").Str] = append(all[m.Get("id").Str], window{minutesOf[w.Get("window").Str], w.Get("used_percent").Int(), resets.Unix()})
		}
	}
	return all
}

// metricsTell returns the meters of the metrics, with the resets of like, which metrics do not have.
func (s *meteredSite) metricsTell(like told) told {
	s.T.Helper()
	samples, all := s.admin.Samples(), make(told)
	for id, windows := range like {
		for _, w := range windows {
			for name, minutes := range minutesOf {
				sample := fmt.Sprintf("codex_login_used_percent{app_server=%q,limit=%q,window=%q}", s.id, id, name)
				if used, ok := samples[sample]; ok && minutes == w.minutes {
					all[id] = append(all[id], window{minutes, int64(used), w.resets})
				}
			}
		}
	}
	return all
}

// headersTell returns the meter that the headers of an answer name.
func headersTell(h http.Header) told {
	id := h.Get("X-Codex-Active-Limit")
	all := make(told)
	for _, place := range []string{"Primary", "Secondary"} {
		number := func(name string) int64 {
			n, _ := strconv.ParseInt(h.Get("X-Codex-"+place+"-"+name), 10, 64) // otherwise it differs
			return n
		}
		if minutes := number("Window-Minutes"); minutes > 0 {
			all[id] = append(all[id], window{minutes, number("Used-Percent"), number("Reset-At")})
		}
	}
	return all
}

// backendTells returns what a Codex in front of the site is told of its plan.
func (s *meteredSite) backendTells() told {
	s.T.Helper()
	_, text := s.Get("/backend-api/wham/usage")
	all := make(told)
	add := func(id string, limit gjson.Result) {
		for _, place := range []string{"primary_window", "secondary_window"} {
			if w := limit.Get(place); w.IsObject() {
				all[id] = append(all[id], window{w.Get("limit_window_seconds").Int() / 60, w.Get("used_percent").Int(), w.Get("reset_at").Int()})
			}
		}
	}
	add(planbackend.PlanMeter, gjson.Get(text, "rate_limit"))
	for _, m := range gjson.Get(text, "additional_rate_limits").Array() {
		add(m.Get("metered_feature").Str, m.Get("rate_limit"))
	}
	return all
}

func same(a, b told) bool {
	return maps.EqualFunc(a, b, func(x, y []window) bool { return slices.Equal(x, y) })
}

// TestMetersOfCodex checks what Codex itself says of a login's meters, on which the other tests rely: all
// of them if it is asked, and after each turn one that need not be that of the turn.
func TestMetersOfCodex(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBoth(t, func(t *testing.T) {
		model := scriptedmodel.New(scriptedmodel.Options{})
		home := e2e.NewHome(t, model, codexhome.Options{})
		t.Cleanup(model.Close)
		must.OK(t, home.Plan.AddMeteredModels())
		home.Login.SetMeters(planbackend.AllMeters(10 * planbackend.Cost(scriptedmodel.DefaultUsage)))
		a := e2e.StartAppServer(t, home.Login)
		used := func(want map[string]int64, allowed bool) {
			t.Helper()
			limits := a.RateLimits()
			for id, percent := range want {
				m := limits.Get("rateLimitsByLimitId." + id)
				if got := m.Get("primary.usedPercent"); !got.Exists() || got.Int() != percent || m.Get("limitId").Str != id {
					t.Errorf("%s: %s, want %d", id, m.Raw, percent)
				}
			}
			if got := limits.Get("ordinaryUsageAllowed").Bool(); got != allowed || limits.Get("rateLimits.limitId").Str != planbackend.PlanMeter {
				t.Errorf("allowed %t: %s", got, limits.Raw)
			}
		}
		updated := func() gjson.Result { return a.Told("account/rateLimits/updated").Get("params.rateLimits.limitId") }
		for _, model := range []string{ordinary, planbackend.LunaModel, planbackend.SparkModel, planbackend.ReserveModel} {
			if end := a.Turn(model, "say:ok"); end.Get("status").Str != "completed" {
				t.Errorf("%s: %s", model, end.Raw)
			}
			want := meterOf[model]
			if e2e.Transport == scriptedmodel.HTTP {
				want = planbackend.SparkMeter // the last one in the headers
			}
			if got := updated(); got.Str != want {
				t.Errorf("after %s it tells of %s, want %s", model, got.Raw, want)
			}
		}
		used(map[string]int64{planbackend.PlanMeter: 20, planbackend.SparkMeter: 10, planbackend.ReserveMeter: 10}, true)
		for model, want := range map[string]string{ordinary: "premium", planbackend.SparkModel: planbackend.SparkMeter, planbackend.ReserveModel: planbackend.ReserveMeter} {
			home.Login.Change(meterOf[model], spend)
			if end := a.Turn(model, "say:ok"); end.Get("error.codexErrorInfo").Str != "usageLimitExceeded" {
				t.Errorf("%s: %s", model, end.Raw)
			}
			if got := updated(); got.Str != want {
				t.Errorf("after %s was refused it tells of %s, want %s", model, got.Raw, want)
			}
			home.Login.Change(meterOf[model], reset)
		}
		home.Login.Change(planbackend.PlanMeter, spend)
		used(map[string]int64{planbackend.PlanMeter: 100, planbackend.SparkMeter: 0, planbackend.ReserveMeter: 0}, false)
		if banner := a.RateLimits().Get("rateLimitUpsell.banner_type"); banner.Str != "luna_reserve" {
			t.Errorf("the banner is %s", banner.Raw)
		}
	})
}

// TestMetersAreTold: all that tells of the plan says of each meter what Codex says, whichever meter the
// last turn has used, and each answer that of its model.
func TestMetersAreTold(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBoth(t, func(t *testing.T) {
		s := newMeteredSite(t, 0, "", "")
		for _, used := range []map[string]float64{
			{planbackend.PlanMeter: 76, planbackend.SparkMeter: 100},
			{planbackend.PlanMeter: 76, planbackend.SparkMeter: 5},
		} {
			for id, percent := range used {
				s.Login.Change(id, func(m *planbackend.Meter) { m.Primary.Used, m.Secondary.Used = percent, percent/2 })
			}
			s.askLimits()
			want := codexTells(s.codex)
			delete(want, planbackend.ReserveMeter) // told only to those who can use it
			e2e.WaitFor(t, fmt.Sprintf("the status to say %v", want), func() bool { return same(s.statusTells(), want) })
			if got := s.metricsTell(want); !same(got, want) {
				t.Errorf("the metrics say %v, want %v", got, want)
			}
			if got := s.backendTells(); !same(got, want) {
				t.Errorf("a Codex is told %v, want %v", got, want)
			}
			for _, model := range []string{ordinary, planbackend.SparkModel, planbackend.LunaModel} {
				for i, api := range e2e.AllAPIs {
					response, _ := s.AskModel(api, model, "say:ok", i%2 == 0)
					if got := headersTell(response.Header); !same(got, want.of(meterOf[model])) {
						t.Errorf("%s with %s: the headers say %v, want %v: %v", api, model, got, want.of(meterOf[model]), response.Header)
					}
					for name := range response.Header {
						if strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "Anthropic-Ratelimit-") {
							t.Errorf("%s: percentages of a plan as %s", api, name)
						}
					}
				}
			}
			output, err := runCommand("", "status", "--address", s.admin.Addr)
			must.OK(t, err)
			for id, windows := range want {
				_, rest, found := strings.Cut(output, "limit "+id)
				rest, _, _ = strings.Cut(rest, "limit ")
				for _, w := range windows {
					for name, minutes := range minutesOf {
						if line := fmt.Sprintf("%s: %d %% used", name, w.used); minutes == w.minutes && (!found || !strings.Contains(rest, line)) {
							t.Errorf("the command does not say %q of %s: %s", line, id, output)
						}
					}
				}
			}
		}
	})
}

// TestSpentMeter: a login with a spent meter serves the models of the others, by each API, and loses no
// request. Those of the meter are refused with the time of its reset.
func TestSpentMeter(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBoth(t, func(t *testing.T) {
		s := newMeteredSite(t, 0, "", "")
		models := []string{ordinary, planbackend.SparkModel, planbackend.LunaModel}
		ask := func(spent string) {
			t.Helper()
			for _, model := range models {
				for i, api := range e2e.AllAPIs {
					want := http.StatusOK
					if meterOf[model] == spent {
						want = http.StatusTooManyRequests
					}
					response, answer := s.AskModel(api, model, "say:ok", i%2 == 0)
					if response.StatusCode != want || want == http.StatusOK && answer.Choices[0].Text != "ok" {
						t.Errorf("%s spent, %s with %s: %s %+v", spent, api, model, response.Status, answer)
					}
					if want != http.StatusOK && (response.Header.Get("X-Should-Retry") != "false" || response.Header.Get("Retry-After") != "") {
						t.Errorf("%s with %s: %v", api, model, response.Header)
					}
				}
			}
		}
		ask("")
		if response, _ := s.AskModel(apiclient.Chat, codexrpc.ReserveModel, "say:ok", false); response.StatusCode != http.StatusNotFound {
			t.Errorf("the reserve is off, and gets %s", response.Status)
		}
		for _, spent := range []string{planbackend.SparkMeter, planbackend.PlanMeter} {
			s.Login.Change(spent, spend)
			ask(spent)
			e2e.WaitFor(t, "the status to say so", func() bool {
				said := s.status().Get(`meters.#(spent==true)#.id`).Array()
				return len(said) == 1 && said[0].Str == spent
			})
			ask(spent)
			s.Login.Change(spent, reset)
			e2e.WaitFor(t, "the meter to be used again", func() bool {
				s.status() // asks for the limits
				for _, model := range models {
					if response, _ := s.AskModel(apiclient.Chat, model, "say:ok", false); response.StatusCode != http.StatusOK {
						return false
					}
				}
				return true
			})
		}
	})
}

// TestMetersOfAPool: a request goes to a login whose meter of the asked model is left. All logins
// share the others.
func TestMetersOfAPool(t *testing.T) {
	e2e.WithLogin(t)
	first, second := newAccount(t, nil), newAccount(t, nil)
	for _, a := range []*account{first, second} {
		must.OK(t, a.Plan.AddMeteredModels())
		a.Login.SetMeters(planbackend.AllMeters(0))
	}
	first.Login.Change(planbackend.SparkMeter, spend)
	s := e2e.NewSite(t, first.block+second.block)
	s.WaitMembers(2)
	asked := func(a *account, model string) (n int) {
		for _, r := range a.model.Requests() {
			if r.Model == model {
				n++
			}
		}
		return n
	}
	var all sync.WaitGroup
	for i := range 48 {
		all.Go(func() {
			model := []string{ordinary, planbackend.SparkModel}[i%2]
			response, err := s.Chat(e2e.Context(t), e2e.ChatBody("delay=2ms; chunk=1; say:all is well", map[string]any{"model": model, "stream": i%3 == 0}), nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", model, response.Status)
			}
		})
	}
	all.Wait()
	before := asked(first, planbackend.SparkModel)
	for i := range 12 { // one at a time, so that no login is busy with Spark
		if response, answer := s.AskModel(apiclient.Chat, []string{ordinary, planbackend.SparkModel}[i/6], "say:ok", false); response.StatusCode != http.StatusOK {
			t.Errorf("%s %+v", response.Status, answer)
		}
	}
	if more := asked(first, planbackend.SparkModel) - before; more > 0 {
		t.Errorf("the login with a spent meter was asked %d times more", more)
	}
	if a, b := asked(first, ordinary), asked(second, ordinary); a == 0 || b == 0 {
		t.Errorf("the logins were asked %d and %d times for an ordinary model", a, b)
	}
}

// TestWindowIsOver: a window whose reset has passed says so, also while nobody says what has become of it,
// and a spent meter is then tried again.
func TestWindowIsOver(t *testing.T) {
	s := newMeteredSite(t, 0, "", "")
	s.Served("say:ok")
	over := func() (n int) {
		for _, m := range s.status().Get("meters").Array() {
			for _, w := range m.Get("windows").Array() {
				if w.Get("over").Bool() {
					n++
				}
			}
		}
		return n
	}
	const ahead = 6 * time.Second
	resets := time.Now().Add(ahead).Truncate(time.Second)
	s.Login.Change(planbackend.PlanMeter, func(m *planbackend.Meter) {
		m.Primary.Used, m.Primary.Resets, m.Spent = 100, resets, true
	})
	if response, answer := s.AskModel(apiclient.Chat, ordinary, "say:ok", false); response.StatusCode != http.StatusTooManyRequests {
		t.Fatalf("%s %+v", response.Status, answer)
	}
	e2e.WaitFor(t, "the window to be known", func() bool { return s.statusTells()[planbackend.PlanMeter][0].used == 100 })
	if n := over(); n > 0 && time.Now().Before(resets) {
		t.Errorf("%d windows are over before their reset", n)
	}
	heal := s.Plan.Fail(planbackend.Usage, planbackend.Status(http.StatusInternalServerError))
	e2e.WaitFor(t, "the window to be over", func() bool { return over() == 1 })
	if early := time.Until(resets); early > 0 {
		t.Errorf("it is over %s too early", early)
	}
	e2e.WaitFor(t, "the plan to be used again", func() bool {
		response, _ := s.AskModel(apiclient.Chat, ordinary, "say:ok", false)
		return response.StatusCode == http.StatusOK
	})
	if late := time.Since(resets); late > 10*time.Second {
		t.Errorf("the plan is used again %s after its reset", late)
	}
	if response, _ := s.AskModel(apiclient.Chat, ordinary, "say:ok", false); len(headersTell(response.Header)[planbackend.PlanMeter]) != 1 {
		t.Errorf("the headers tell of a window that is over: %v", response.Header)
	}
	output, err := runCommand("", "status", "--address", s.admin.Addr)
	if err != nil || !strings.Contains(output, "as last told, was reset") {
		t.Errorf("%v %s", err, output)
	}
	heal()
	s.askLimits()
	e2e.WaitFor(t, "the new window", func() bool {
		return over() == 0 && same(s.statusTells().of(planbackend.PlanMeter), codexTells(s.codex).of(planbackend.PlanMeter))
	})
}

// TestEarlyReset: a plan that the provider resets before its time is used again within seconds.
func TestEarlyReset(t *testing.T) {
	s := newMeteredSite(t, 0, "", "")
	for round := range 2 {
		s.Login.Change(planbackend.PlanMeter, spend)
		if response, answer := s.AskModel(apiclient.Chat, ordinary, "say:ok", false); response.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("%s %+v", response.Status, answer)
		}
		s.Login.Change(planbackend.PlanMeter, reset)
		began := time.Now()
		e2e.WaitFor(t, "the plan to be used again", func() bool {
			response, _ := s.AskModel(apiclient.Chat, ordinary, "say:ok", false)
			return response.StatusCode == http.StatusOK
		})
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("round %d: used again %s after the reset", round, took)
		}
	}
}

// TestEarlyResetInAPool: if all logins of a pool rest, so that no turn shows that one was reset, it is used again
// within a minute.
func TestEarlyResetInAPool(t *testing.T) {
	e2e.WithLogin(t)
	first, second := newAccount(t, nil), newAccount(t, nil)
	for _, a := range []*account{first, second} {
		a.Login.SetMeters(planbackend.AllMeters(0))
		a.Login.Change(planbackend.PlanMeter, spend)
	}
	s := e2e.NewSite(t, first.block+second.block)
	s.WaitMembers(2)
	served := func() bool {
		response, _ := s.AskModel(apiclient.Chat, ordinary, "say:ok", false)
		return response.StatusCode == http.StatusOK
	}
	for range 3 {
		if served() {
			t.Fatal("a spent plan has served")
		}
	}
	_, text := s.Call(http.MethodPost, "/v1/responses", e2e.Asks("say:ok", e2e.Fields{"background": true}), nil)
	id := gjson.Get(text, "id").Str
	e2e.WaitFor(t, "the end of a background response", func() bool {
		_, text = s.Get("/v1/responses/" + id)
		return gjson.Get(text, "status").Str == "failed"
	})
	if code := gjson.Get(text, "error.code"); code.Str != "rate_limit_exceeded" {
		t.Errorf("the background response is %s", text)
	}
	asked := func() int { return first.Plan.Count(planbackend.Usage) + second.Plan.Count(planbackend.Usage) }
	e2e.WaitFor(t, "what the last turns have changed to be read", func() bool {
		before := asked()
		time.Sleep(7 * time.Second)
		return asked() == before
	})
	second.Login.Change(planbackend.PlanMeter, reset)
	e2e.WaitFor(t, "the plan to be used again", served)
}

// TestMeterEvents: the events of a plan's use name the meter, and come once for each threshold of each
// window of each meter, also if turns of other meters come between.
func TestMeterEvents(t *testing.T) {
	witness := rand.Text()
	s := newMeteredSite(t, 0, "", "events {\non codex.plan_used witness "+witness+"\n}\n")
	next := func(used map[string]float64, events int, now bool) {
		t.Helper()
		for id, percent := range used {
			s.Login.Change(id, func(m *planbackend.Meter) { m.Primary.Used = percent })
		}
		for _, model := range []string{ordinary, planbackend.SparkModel, ordinary} {
			if response, answer := s.AskModel(apiclient.Chat, model, "say:ok", false); response.StatusCode != http.StatusOK {
				t.Fatalf("%s %+v", response.Status, answer)
			}
		}
		if now {
			s.askLimits()
		}
		e2e.WaitFor(t, "the events", func() bool { // at first, the turns alone make this server ask
			return same(s.statusTells().of(planbackend.SparkMeter), codexTells(s.codex).of(planbackend.SparkMeter)) && len(eventsOf(witness)) >= events
		})
	}
	next(map[string]float64{planbackend.PlanMeter: 82, planbackend.SparkMeter: 86}, 2, false)
	next(map[string]float64{planbackend.PlanMeter: 83, planbackend.SparkMeter: 100}, 3, true)
	next(map[string]float64{planbackend.PlanMeter: 84, planbackend.SparkMeter: 100}, 3, true)
	var got []string
	for _, e := range eventsOf(witness) {
		got = append(got, fmt.Sprint(e.data["limit"], " ", e.data["limit_name"], " ", e.data["window"], " ", e.data["percent"]))
	}
	slices.Sort(got)
	const spark = planbackend.SparkMeter + " GPT-5.3-Codex-Spark 5h "
	if want := []string{planbackend.PlanMeter + "  5h 80", spark + "100", spark + "80"}; !slices.Equal(got, want) {
		t.Errorf("the events are %q, want %q", got, want)
	}
}
