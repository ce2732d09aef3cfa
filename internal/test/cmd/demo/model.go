package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/demomodel"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

const (
	// demoWindow is the number of tokens that a conversation may have.
	demoWindow = 272_000
	// The costs of the windows of the demo's plan: an answer moves the first by about one percent.
	primaryCapacity   = 1_000_000
	secondaryCapacity = 10_000_000
	// fullUse is the percentage at which the windows are reset early: a demo refuses nobody.
	fullUse = 95
)

// startModel starts the demo model behind the back end of a plan, until closeModel is called. It writes
// a CODEX_HOME with a login for it into home. The model answers a wish to log in with signIn.
func startModel(codex, home string, signIn func() string) (closeModel func(), err error) {
	server := scriptedmodel.New(scriptedmodel.Options{Answer: demomodel.Model{SignIn: signIn}.Answer, AnswersInvalid: true})
	server.SetWindow(demoWindow)
	plan, err := planbackend.Listen(planbackend.Options{Codex: codex, Model: server, Dir: filepath.Dir(home)})
	if err != nil {
		return nil, err
	}
	closeModel = func() {
		server.Close()
		plan.Close()
	}
	login := plan.AddLogin(planbackend.LoginOptions{})
	login.SetMeters([]planbackend.Meter{demoMeter()})
	plan.SetPicture(demomodel.Picture())
	known, err := modelNames(plan)
	if err == nil {
		err = login.Write(home)
	}
	if err != nil {
		closeModel()
		return nil, fmt.Errorf("starting the demo model: %w", err)
	}
	server.On(func(req scriptedmodel.Request) (scriptedmodel.Script, bool) {
		login.Change(planbackend.PlanMeter, func(m *planbackend.Meter) {
			if m.Primary.Used >= fullUse || m.Secondary.Used >= fullUse {
				m.Reset()
			}
		})
		return scriptedmodel.Script{End: scriptedmodel.UnknownModel{Model: req.Model}}, !known[req.Model]
	})
	return closeModel, nil
}

// demoMeter is the meter of a plan of which something is used, and whose first window ends soon.
func demoMeter() planbackend.Meter {
	now := time.Now()
	return planbackend.Meter{
		ID:        planbackend.PlanMeter,
		Primary:   planbackend.Window{Length: 5 * time.Hour, Used: 12, Resets: now.Add(40 * time.Minute), Capacity: primaryCapacity},
		Secondary: planbackend.Window{Length: 7 * 24 * time.Hour, Used: 31, Resets: now.Add(3 * 24 * time.Hour), Capacity: secondaryCapacity},
	}
}

// modelNames returns the names of the models that the plan has.
func modelNames(plan *planbackend.Backend) (map[string]bool, error) {
	entries, err := plan.Models()
	names := make(map[string]bool, len(entries))
	for _, entry := range entries {
		var model struct{ Slug string }
		if err := json.Unmarshal(entry, &model); err != nil {
			return nil, fmt.Errorf("the list of models: %w", err)
		}
		names[model.Slug] = true
	}
	return names, err
}
