package imagefetch

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options are those of a [Fetcher]. The zero value is the one for service; the
// fields are for tests, whose servers are on this machine.
type Options struct {
	// Allow replaces the rule of [Public] for the addresses that are dialled,
	// and lifts the restriction of URLs to port 443.
	Allow func(netip.AddrPort) bool
	// RootCAs replaces the system's certificates.
	RootCAs *x509.CertPool
}

// Fetcher fetches images. Its methods are safe for concurrent use.
type Fetcher struct {
	client    *http.Client
	transport *http.Transport
	anyPort   bool
	limits    limits
	closed    atomic.Bool
}

// limits bound what the URLs of one request may cost.
type limits struct {
	images     int           // different URLs
	atOnce     int           // fetched at the same time
	imageBytes int64         // of one image
	totalBytes int64         // of all images
	imageTime  time.Duration // for one image, with its redirects
	totalTime  time.Duration // for all images
}

var standardLimits = limits{
	images:     16,
	atOnce:     4,
	imageBytes: 20 << 20,
	totalBytes: 32 << 20,
	imageTime:  10 * time.Second,
	totalTime:  15 * time.Second,
}

// New makes a fetcher.
func New(opts Options) *Fetcher {
	f := &Fetcher{transport: newTransport(opts), anyPort: opts.Allow != nil, limits: standardLimits}
	f.client = &http.Client{Transport: f.transport, CheckRedirect: f.checkRedirect}
	return f
}

// Close closes the connections that are kept for further images. A fetch that
// is under way goes on, and closes its own when it has ended.
func (f *Fetcher) Close() {
	f.closed.Store(true)
	f.client.CloseIdleConnections()
}

// Fetch fetches the images at the URLs and returns each as a data URL
// (data:image/png;base64,…), by its URL. One that is named twice is fetched
// once. The first image that cannot be had ends the others and is a [*Failure];
// if ctx has ended, the error is that of ctx. The images are in memory, at
// most 43 MiB of them, and nothing else of Fetch outlives it but connections
// that are kept for half a minute.
func (f *Fetcher) Fetch(ctx context.Context, urls []string) (map[string]string, error) {
	wanted := slices.Compact(slices.Sorted(slices.Values(urls)))
	if len(wanted) > f.limits.images {
		return nil, f.tooMany(urls)
	}
	defer func() {
		if f.closed.Load() {
			f.client.CloseIdleConnections()
		}
	}()
	run, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	limited, stop := context.WithTimeoutCause(run, f.limits.totalTime, errTotalTime(f.limits.totalTime))
	defer stop()
	var (
		budget  = newBudget(f.limits.totalBytes)
		next    atomic.Int64
		fetched = make([]string, len(wanted))
		wg      sync.WaitGroup
	)
	for range min(f.limits.atOnce, len(wanted)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(wanted)) && run.Err() == nil; i = next.Add(1) - 1 {
				var err error
				if fetched[i], err = f.image(limited, wanted[i], budget); err != nil {
					fail(&Failure{URL: wanted[i], Reason: err.Error()})
				}
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if run.Err() != nil {
		return nil, context.Cause(run)
	}
	images := make(map[string]string, len(wanted))
	for i, url := range wanted {
		images[url] = fetched[i]
	}
	return images, nil
}

// tooMany is the failure of the first URL above the limit, in the order of the
// request.
func (f *Fetcher) tooMany(urls []string) error {
	seen := make(map[string]bool, f.limits.images)
	for _, url := range urls {
		if !seen[url] && len(seen) == f.limits.images {
			return &Failure{URL: url, Reason: errTooMany(f.limits.images).Error()}
		}
		seen[url] = true
	}
	return nil // not reached: Fetch has counted them
}
