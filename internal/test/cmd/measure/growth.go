package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// growthReadings is how often the memory is read.
const growthReadings = 10

// measureGrowth runs conversations of two turns, each new to Caddy, and prints after
// each tenth of them how much memory Caddy and codex use. Every other conversation
// ends with a call that is never answered.
func measureGrowth(ctx context.Context, o options, site *rig.Site) error {
	fmt.Println("conversations    kept  parked  threads   continued  MB Caddy  MB codex")
	if err := readGrowth(site, 0); err != nil {
		return err
	}
	for done := 0; done < o.conversations; {
		next := min(done+max(1, o.conversations/growthReadings), o.conversations)
		if err := converseTwice(ctx, o, site, done, next); err != nil {
			return err
		}
		if err := readGrowth(site, next); err != nil {
			return err
		}
		done = next
	}
	return nil
}

// converseTwice runs the conversations with the numbers from first to before next,
// o.atOnce of them concurrently.
func converseTwice(ctx context.Context, o options, site *rig.Site, first, next int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(o.atOnce)
	for i := first; i < next; i++ {
		group.Go(func() error {
			history := []message{{Role: "system", Content: fmt.Sprintf("Conversation %d. %s", i, strings.Repeat("Be thorough. ", agentInstructions/13))}}
			second := "say:Goodbye."
			if i%2 == 1 {
				second = `tool:search0 {"query":"note"}`
			}
			for _, prompt := range []string{"reason:I see.; say:Hello.", second} {
				history = append(history, message{Role: "user", Content: prompt})
				answer, err := ask(ctx, site, history)
				if err != nil {
					return err
				}
				history = append(history, answer)
			}
			return nil
		})
	}
	return group.Wait()
}

// readGrowth prints a reading after so many conversations.
func readGrowth(site *rig.Site, conversations int) error {
	response, err := http.Get(site.Admin + "/codex/status")
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
	one := status.AppServers[0]
	fmt.Printf("%13d%8d%8d%9d%12d%10d%10d\n", conversations, one.Conversations.Kept, one.Conversations.Parked, one.Threads,
		one.Conversations.Continued, rig.Memory(site.PID, rig.Resident)>>10, rig.UsageBelow(site.PID).Memory>>10)
	return nil
}
