// Command soak runs the built Caddy with the real codex and the scripted model under mixed traffic
// and makes trouble: it kills and stops codex, lets the back end of its plan fail in each way,
// reloads the configuration, drops connections and sends invalid requests. It checks every byte of
// the answers, and that in the end nothing is left and no size has grown:
//
//	go run ./internal/test/cmd/soak -minutes 60
//
// With -outages it makes outages of the back end alone, one soon after another, in which it also
// reloads the configuration or kills all app-servers, and two clients ask for chats.
//
// With -meters it moves the meters of the plan's two logins at random instead: it uses them up, and resets them
// early. What answers and the status say of them must be what the back end has told last, no request may fail as
// long as a login has something left for its model, and in the end the shares of the users must be the whole.
//
// It prints a line a minute and a verdict, and exits with 1 if that is bad. It runs on Linux only.
package main

import (
	"context"
	"flag"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// options are the command's flags.
type options struct {
	rig.Programs
	minutes float64
	clients int
	seed    uint64
	log     string
	login   bool
	outages bool
	meters  bool
}

func main() {
	var o options
	flag.Float64Var(&o.minutes, "minutes", 10, "how long")
	flag.IntVar(&o.clients, "clients", 12, "clients at once")
	flag.Uint64Var(&o.seed, "seed", 1, "chooses what is asked and which trouble is made, but not when things happen")
	flag.StringVar(&o.log, "log", "", "a file for what Caddy says")
	flag.BoolVar(&o.login, "login", true, "run logged in, with outages of the plan's back end")
	flag.BoolVar(&o.meters, "meters", false, "move the meters of the plan instead of making outages of its back end")
	flag.BoolVar(&o.outages, "outages", false, "make outages alone, one soon after another")
	rig.Main("soak", func(ctx context.Context, programs rig.Programs) error {
		o.Programs = programs
		return run(ctx, o)
	})
}
