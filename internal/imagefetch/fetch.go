// Package imagefetch fetches the images that a request names by URL and returns
// them as data URLs, the only kind that Codex accepts.
//
// The URLs come from clients, so fetching must not give them access to the
// network that this process runs in (SSRF). Only https on port 443 of public
// unicast addresses is allowed. The check applies to the address of each
// connection, so neither DNS nor a redirect can bypass it. Everything read from
// a server has a limit, and a client gets the same message for every host that
// it may not reach.
package imagefetch

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// Options configure a [Fetcher]. The zero value is for production; the fields
// let tests fetch from servers on this machine.
type Options struct {
	// Allow replaces the check of the addresses that are dialled, and lifts the
	// restriction of URLs to port 443.
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

// limits bound the cost of the URLs in one request.
type limits struct {
	images     int           // different URLs
	atOnce     int           // fetched at the same time
	imageBytes int64         // of one image
	totalBytes int64         // of all images
	imageTime  time.Duration // for one image, with its redirects
	totalTime  time.Duration // for all images
}

var standardLimits = limits{
	images:     prompt.MaxRemoteImages,
	atOnce:     4,
	imageBytes: 20 << 20,
	totalBytes: 32 << 20,
	imageTime:  10 * time.Second,
	totalTime:  15 * time.Second,
}

// New returns a fetcher.
func New(opts Options) *Fetcher {
	f := &Fetcher{transport: newTransport(opts), anyPort: opts.Allow != nil, limits: standardLimits}
	f.client = &http.Client{Transport: f.transport, CheckRedirect: f.checkRedirect}
	return f
}

// Close closes idle connections. A Fetch in progress continues and closes its
// own connections when it returns.
func (f *Fetcher) Close() {
	f.closed.Store(true)
	f.client.CloseIdleConnections()
}

// Fetch fetches the images at urls, each once, and returns them by URL as data
// URLs (data:image/png;base64,…), at most 43 MiB of them. The first image that
// cannot be fetched cancels the others and is returned as a [*Failure]. If ctx
// has ended, the error is that of ctx.
func (f *Fetcher) Fetch(ctx context.Context, urls []string) (map[string]string, error) {
	images := make(map[string]string)
	var wanted []string
	for _, url := range urls {
		if _, again := images[url]; again {
			continue
		}
		if len(wanted) == f.limits.images {
			return nil, &Failure{URL: url, Reason: errTooMany(f.limits.images).Error()}
		}
		images[url] = ""
		wanted = append(wanted, url)
	}
	defer func() {
		if f.closed.Load() {
			f.client.CloseIdleConnections()
		}
	}()
	group, run := errgroup.WithContext(ctx)
	group.SetLimit(f.limits.atOnce)
	run, stop := context.WithTimeoutCause(run, f.limits.totalTime, errTotalTime(f.limits.totalTime))
	defer stop()
	budget := newBudget(f.limits.totalBytes)
	fetched := make([]string, len(wanted))
	for i, url := range wanted {
		group.Go(func() error {
			image, err := f.image(run, url, budget)
			if err != nil {
				return &Failure{URL: url, Reason: err.Error()}
			}
			fetched[i] = image
			return nil
		})
	}
	err := group.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	for i, url := range wanted {
		images[url] = fetched[i]
	}
	return images, nil
}
