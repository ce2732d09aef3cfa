package store

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The metrics of the operations on Redis and on the file of a [Disk].
var (
	DurationMetric = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "codex_store_duration_seconds", Help: "Time of an operation on the store.", Buckets: []float64{.001, .004, .016, .064, .256, 1, 4},
	}, []string{"operation"})
	FailuresMetric = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "codex_store_failures_total", Help: "Operations that failed, since the store does not work.",
	}, []string{"operation"})
)

// observe counts an operation that began at this time. An operation that was cancelled by its request
// does not count as failed.
func observe(operation string, begin time.Time, err error) {
	DurationMetric.WithLabelValues(operation).Observe(time.Since(begin).Seconds())
	failures := FailuresMetric.WithLabelValues(operation) // begins at 0, so that the first failure is an increase
	if err != nil && !errors.Is(err, context.Canceled) {
		failures.Inc()
	}
}
