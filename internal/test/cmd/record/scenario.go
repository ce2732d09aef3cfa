package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/recorder"
)

// scenario is a turn to record.
type scenario struct {
	name string
	// request is the body of its chat completion.
	request string
	// leave reports whether the client leaves now, by its events and number of calls; nil: never.
	leave func(events []codexrpc.Event, calls int) bool
	// answer is the result of each tool call. If empty, calls are not answered, as in the product.
	answer string
	setting
}

// setting is what scenarios of one app-server share.
type setting struct {
	// set is the directory of the recordings, and the name of the login in logins; empty: no login.
	set string
	// config is added to the config.toml of the app-server.
	config string
}

// recording is the record of a scenario, with one entry per line.
type recording struct {
	name string
	text []byte
}

// handshake is the name of the recording of everything before the turns.
const handshake = "handshake"

// recordAll records the handshake of each set and the scenarios, if their names contain only.
func recordAll(ctx context.Context, start func(setting) (*appServer, error), only string) ([]recording, error) {
	var all []recording
	bySetting := make(map[setting][]scenario)
	for _, s := range scenarios() {
		if strings.Contains(path.Join(s.set, s.name), only) {
			bySetting[s.setting] = append(bySetting[s.setting], s)
		}
	}
	var lock sync.Mutex
	var running sync.WaitGroup
	var failures error
	for of, group := range bySetting {
		running.Go(func() {
			recordings, err := recordSetting(ctx, start, of, group)
			lock.Lock()
			defer lock.Unlock()
			failures = errors.Join(failures, err)
			for i, r := range recordings {
				if i > 0 || of.config == "" && strings.Contains(r.name, only) {
					all = append(all, r)
				}
			}
		})
	}
	running.Wait()
	if failures != nil {
		return nil, failures
	}
	slices.SortFunc(all, func(a, b recording) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// recordSetting records the handshake and some scenarios with one app-server.
func recordSetting(ctx context.Context, start func(setting) (*appServer, error), of setting, group []scenario) ([]recording, error) {
	server, err := start(of)
	if err != nil {
		return nil, err
	}
	recordings, err := server.recordGroup(ctx, of, group)
	for i, r := range recordings {
		recordings[i].name = path.Join(of.set, r.name)
	}
	return recordings, errors.Join(err, server.stop())
}

// recordGroup records the handshake and then some scenarios.
func (a *appServer) recordGroup(ctx context.Context, of setting, group []scenario) ([]recording, error) {
	if _, err := a.conn.Initialize(ctx, clientInfo); err != nil {
		return nil, err
	}
	if err := a.conn.CheckLogin(ctx); err != nil {
		return nil, err
	}
	// Whether a refused login is refused here as well depends on what Codex asks first.
	if of.set != refusedLogin {
		if _, err := a.conn.Account(ctx); err != nil && !errors.As(err, new(*codexrpc.CallError)) {
			return nil, err
		}
	}
	if _, err := a.conn.Models(ctx); err != nil {
		return nil, err
	}
	text, err := a.normalise(a.tape.take())
	if err != nil {
		return nil, err
	}
	recordings := []recording{{handshake, text}}
	for _, s := range group {
		entries, err := a.play(ctx, s)
		if err == nil {
			text, err = a.normalise(entries)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		recordings = append(recordings, recording{s.name, text})
	}
	return recordings, nil
}

// play runs a scenario and returns its messages from thread/start to turn/completed.
func (a *appServer) play(ctx context.Context, s scenario) ([]recorder.Entry, error) {
	request, refusal := chat.Decode([]byte(s.request))
	if refusal != nil {
		return nil, fmt.Errorf("decoding the request: %s", refusal.Message)
	}
	plan, refusal := request.Plan(prompt.Options{})
	if refusal != nil {
		return nil, fmt.Errorf("planning the request: %s", refusal.Message)
	}
	plan.Thread.Cwd = a.cwd
	a.tape.answerCalls(s.answer)
	thread, err := a.conn.StartThread(ctx, plan.Thread)
	if err != nil {
		return nil, err
	}
	released := make(chan struct{})
	err = a.follow(ctx, thread, plan, s.leave)
	thread.Close(func() { close(released) })
	<-released // unloading has a deadline
	if err != nil {
		return nil, err
	}
	return ofThread(a.tape.take(), thread.ID())
}

// callsPause is the interval at which calls are counted, since they are no events.
const callsPause = 5 * time.Millisecond

// follow runs the turn of a plan until it ends or leave returns true.
func (a *appServer) follow(ctx context.Context, thread *codexrpc.Thread, plan *prompt.Plan, leave func([]codexrpc.Event, int) bool) error {
	if len(plan.History) > 0 {
		if err := thread.InjectItems(ctx, plan.History); err != nil {
			return err
		}
	}
	if err := thread.StartTurn(ctx, plan.Turn); err != nil {
		return err
	}
	var all []codexrpc.Event
	for {
		events, err := thread.Recv()
		if err != nil {
			return err
		}
		all = append(all, events...)
		if leave != nil && leave(all, a.tape.calls()) {
			return nil
		}
		if len(all) > 0 && all[len(all)-1].Kind == codexrpc.EventTurnCompleted {
			if leave != nil {
				return errors.New("the turn ended before the client could leave it")
			}
			return nil
		}
		pause := time.NewTimer(callsPause)
		select {
		case <-thread.Ready():
		case <-pause.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		pause.Stop()
	}
}

// ofThread returns the messages of one thread up to the end of its turn.
func ofThread(entries []recorder.Entry, threadID string) ([]recorder.Entry, error) {
	var kept []recorder.Entry
	for _, e := range entries {
		m := gjson.ParseBytes(e.Message)
		if id := m.Get("params.threadId"); id.Exists() && id.Str != threadID {
			continue
		}
		kept = append(kept, e)
		if m.Get("method").Str == "turn/completed" {
			return kept, nil
		}
	}
	return nil, errors.New("the turn did not end")
}
