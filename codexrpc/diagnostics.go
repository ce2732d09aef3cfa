package codexrpc

import "context"

// Diagnostics is the app-server's report of itself (ServerDiagnosticsResponse).
type Diagnostics struct {
	PID    int   // of the program that answers, on its own machine
	Memory int64 // resident, in bytes; 0: not known
	// LiveThreads are the threads that it holds in memory, for all of its
	// clients, ActiveTurns those of them that work.
	LiveThreads, ActiveTurns int64
}

// Diagnostics asks the app-server for its memory and its threads. It needs no free
// slot, so that it works while all calls in flight are stuck. Releases without
// server/diagnostics refuse with a *CallError.
func (c *Conn) Diagnostics(ctx context.Context) (Diagnostics, error) {
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
	err := c.call(ctx, call{method: methodDiagnostics, params: struct{}{}, result: &answer, urgent: true})
	if err != nil {
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
