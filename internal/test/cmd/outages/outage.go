package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// outage is a way in which the back end of the plan fails.
type outage struct {
	name  string
	fault planbackend.Fault
	kinds []planbackend.Kind // that fail
	// tokens does something to the login before; nil: nothing.
	tokens func(*rig.Model) error
	// lasts is how long calls may be held after its end that began before.
	lasts time.Duration
}

var (
	everything = []planbackend.Kind{planbackend.All}
	account    = []planbackend.Kind{planbackend.Accounts}
	issuer     = []planbackend.Kind{planbackend.Issuer}
)

var outages = []outage{
	{"nothing is reached", planbackend.Down(), everything, nil, 0},
	{"everything: 500", planbackend.Status(500), everything, nil, 0},
	{"everything: a page", planbackend.HTML(403), everything, nil, 0},
	{"accounts: 500", planbackend.Status(500), account, nil, 0},
	{"accounts: 429", planbackend.Status(429), account, nil, 0},
	{"accounts: silent", planbackend.Silent(), account, nil, 0},
	{"accounts: slow, 4 s", planbackend.Slow(4 * time.Second), account, nil, 0},
	{"tokens expired, the issuer 3 s late", planbackend.Late(3 * time.Second), issuer, func(m *rig.Model) error { return m.Login.Expire(m.Home) }, 0},
	{"tokens refused, the issuer 3 s late", planbackend.Late(3 * time.Second), issuer, refuse, 0},
	{"tokens refused, the issuer 12 s late", planbackend.Late(12 * time.Second), issuer, refuse, 12 * time.Second},
	{"tokens refused, the issuer: 500", planbackend.Status(500), issuer, refuse, 0},
}

func refuse(m *rig.Model) error {
	m.Login.Refuse()
	return nil
}

// happening is what happens to a server in an outage.
type happening struct {
	name string
	do   func(context.Context, *rig.Site, rig.SiteOptions) error // nil: it is started in it
}

var happenings = []happening{
	{"a start", nil},
	{"a reload", func(ctx context.Context, s *rig.Site, opts rig.SiteOptions) error {
		opts.AppServer += "\nenv A B" // other app-servers
		return errors.Join(s.Reload(ctx, opts), rig.WaitReady(ctx, s.URL))
	}},
	{"a kill", func(ctx context.Context, s *rig.Site, _ rig.SiteOptions) error {
		killed := appServers(s)
		for _, pid := range killed {
			_ = syscall.Kill(pid, syscall.SIGKILL) // fails if it has exited
		}
		for ctx.Err() == nil {
			now := appServers(s)
			if len(now) >= processes && !slices.ContainsFunc(now, func(pid int) bool { return slices.Contains(killed, pid) }) {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		return rig.WaitReady(ctx, s.URL)
	}},
}

// appServers returns the processes of the app-servers.
func appServers(s *rig.Site) []int {
	return slices.DeleteFunc(rig.Below(s.PID), func(pid int) bool { return !slices.Contains(rig.Command(pid), "app-server") })
}

const (
	// backWithin is how long after an outage the next answer may come.
	backWithin = 2 * time.Second
	// giveUp bounds each wait.
	giveUp = 60 * time.Second
	// processes is the number of app-servers.
	processes = 4
)

// once is what was seen in one outage.
type once struct {
	ready, during, after time.Duration
	code                 string // of the request in it
}

// try makes an outage. Its error says what was wrong.
func try(ctx context.Context, o options, out outage, what happening) (seen once, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*giveUp)
	defer cancel()
	model, err := rig.NewPlan(o.Codex)
	if err != nil {
		return seen, err
	}
	defer model.Close()
	opts := rig.SiteOptions{Command: o.Codex, Home: model.Home, AppServer: fmt.Sprint("processes ", processes)}
	var site *rig.Site
	if what.do != nil {
		if site, err = rig.StartSite(ctx, o.Caddy, opts); err != nil {
			return seen, err
		}
		_, _ = ask(ctx, site) // what fails is seen below
	}
	for _, kind := range out.kinds {
		model.Plan.Fail(kind, out.fault)
	}
	if out.tokens != nil {
		err = out.tokens(model)
	}
	begin := time.Now()
	if what.do == nil {
		if site, err = rig.StartSite(ctx, o.Caddy, opts); err != nil {
			return seen, err
		}
	} else {
		err = errors.Join(err, what.do(ctx, site, opts))
	}
	seen.ready = time.Since(begin)
	seen.during, seen.code = ask(ctx, site)
	model.Plan.Heal()
	begin = time.Now()
	for code := ""; code != answered && time.Since(begin) < giveUp && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		_, code = ask(ctx, site)
	}
	seen.after = time.Since(begin)
	switch {
	case ctx.Err() != nil:
		err = errors.Join(err, context.Cause(ctx))
	case seen.after > backWithin+out.lasts:
		err = errors.Join(err, fmt.Errorf("the next answer came after %s", seen.after.Round(time.Millisecond)))
	}
	return seen, errors.Join(err, site.Stop(), checkLogin(model))
}

// checkLogin returns an error if the tokens that the issuer has issued are not in the file.
func checkLogin(m *rig.Model) error {
	content, err := os.ReadFile(filepath.Join(m.Home, "auth.json"))
	if err == nil && !strings.Contains(string(content), m.Login.Tokens().Refresh) {
		err = fmt.Errorf("the login was lost after %d questions to the issuer", m.Plan.Count(planbackend.Issuer))
	}
	return err
}
