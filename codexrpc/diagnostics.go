package codexrpc

import "context"

// Diagnostics is what an app-server tells of itself (ServerDiagnosticsResponse).
type Diagnostics struct {
	PID    int   // of the program that answers, where it runs
	Memory int64 // resident, in bytes; 0 where it does not know
	// LiveThreads are the threads that it holds in memory, for all of its
	// clients, ActiveTurns those of them that work.
	LiveThreads, ActiveTurns int64
}

// Diagnostics asks the app-server for its memory and its threads. Releases
// without server/diagnostics refuse with a *CallError.
func (c *Conn) Diagnostics(ctx context.Context) (Diagnostics, error) {
	return c.diagnostics(ctx, call{})
}

// diagnostics makes the call in the given way.
func (c *Conn) diagnostics(ctx context.Context, do call) (Diagnostics, error) {
	var answer struct {
		Process struct {
			ID                  int   `json:"id"`
			ResidentMemoryBytes int64 `json:"residentMemoryBytes"`
		} `json:"process"`
		Gauges []struct {
			Name  string  `json:"name"`
			Value float64 `json:"value"`
		} `json:"gauges"`
	}
	do.method, do.params, do.result = methodDiagnostics, struct{}{}, &answer
	if err := c.call(ctx, do); err != nil {
		return Diagnostics{}, err
	}
	d := Diagnostics{PID: answer.Process.ID, Memory: answer.Process.ResidentMemoryBytes}
	for _, gauge := range answer.Gauges {
		switch gauge.Name {
		case "core.threads.live":
			d.LiveThreads = int64(gauge.Value)
		case "core.turns.active":
			d.ActiveTurns = int64(gauge.Value)
		}
	}
	return d, nil
}
