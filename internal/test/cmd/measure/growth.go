package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// growthReadings is how often the memory is read.
const growthReadings = 10

// measureGrowth runs conversations of two turns, each new to Caddy, and prints after
// each tenth of them how much memory Caddy and codex use. Every other conversation
// ends with a call that is never answered.
func measureGrowth(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "caddy-codex-measure-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	model, err := scriptedmodel.Listen(scriptedmodel.Options{})
	if err != nil {
		return err
	}
	defer model.Close()
	if err := codexhome.Write(dir, model.URL, codexhome.Options{WebSockets: true}); err != nil {
		return err
	}
	caddy, site, err := startCaddy(ctx, o, dir, "")
	if err != nil {
		return err
	}
	fmt.Println("conversations    kept  parked  threads   continued  MB Caddy  MB codex")
	err = site.readGrowth(caddy.PID, 0)
	for done := 0; err == nil && done < o.conversations; {
		next := min(done+max(1, o.conversations/growthReadings), o.conversations)
		if err = converseTwice(ctx, o, site.url, done, next); err == nil {
			err = site.readGrowth(caddy.PID, next)
		}
		done = next
	}
	return errors.Join(err, caddy.Stop(exitWait))
}

// converseTwice runs the conversations with the numbers from first to before next,
// o.atOnce of them concurrently.
func converseTwice(ctx context.Context, o options, url string, first, next int) error {
	var mu sync.Mutex
	var errs []error
	var all sync.WaitGroup
	places := make(chan struct{}, o.atOnce)
	for i := first; i < next; i++ {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			history := []message{{Role: "system", Content: fmt.Sprintf("Conversation %d. %s", i, strings.Repeat("Be thorough. ", agentInstructions/13))}}
			second := "say:Goodbye."
			if i%2 == 1 {
				second = `tool:search0 {"query":"note"}`
			}
			for _, prompt := range []string{"reason:I see.; say:Hello.", second} {
				answer, err := ask(ctx, url, append(history, message{Role: "user", Content: prompt}))
				history = append(history, message{Role: "user", Content: prompt}, answer)
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// readGrowth prints a reading after so many conversations.
func (s *site) readGrowth(caddy, conversations int) error {
	response, err := http.Get(s.admin + "/codex/status")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var status struct {
		AppServers []struct {
			Threads       int
			Conversations struct{ Kept, Parked, Continued int }
		} `json:"app_servers"`
	}
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		return err
	}
	if len(status.AppServers) != 1 {
		return fmt.Errorf("%d app-servers are reported", len(status.AppServers))
	}
	codex := 0
	for _, pid := range rig.Below(caddy) {
		codex += rig.Memory(pid, rig.Resident)
	}
	one := status.AppServers[0]
	fmt.Printf("%13d%8d%8d%9d%12d%10d%10d\n", conversations, one.Conversations.Kept, one.Conversations.Parked, one.Threads,
		one.Conversations.Continued, rig.Memory(caddy, rig.Resident)>>10, codex>>10)
	return nil
}
