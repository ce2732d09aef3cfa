package caddymodule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"
)

const (
	maxWaitingEvents = 100              // the most events that wait for a slow receiver
	webhookTimeout   = 10 * time.Second // for posting one event
)

func init() { caddy.RegisterModule(new(Webhook)) }

// Webhook posts each event as JSON in the format of CloudEvents 1.0, one after another. An event
// that cannot be posted is logged and dropped.
type Webhook struct {
	// URL is where events are posted. It may contain placeholders, such as {env.TOPIC}.
	URL string `json:"url"`

	queue   chan []byte
	posting sync.WaitGroup
	logger  *zap.Logger
}

// CaddyModule returns the module events.handlers.codex_webhook.
func (*Webhook) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.codex_webhook", New: func() caddy.Module { return new(Webhook) }}
}

// UnmarshalCaddyfile reads the URL:
//
//	codex_webhook <url>
func (h *Webhook) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the handler
	if !d.AllArgs(&h.URL) {
		return d.ArgErr()
	}
	return nil
}

// Provision starts the goroutine that posts. The goroutine ends with ctx.
func (h *Webhook) Provision(ctx caddy.Context) error {
	address, err := caddy.NewReplacer().ReplaceOrErr(h.URL, true, true)
	if err != nil {
		return err
	}
	if parsed, err := url.Parse(address); err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" {
		return fmt.Errorf("codex_webhook: %q is no URL with http:// or https://", h.URL)
	}
	h.logger, h.queue = ctx.Logger(), make(chan []byte, maxWaitingEvents)
	h.posting.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case body := <-h.queue:
				if err := postEvent(ctx, address, body); err != nil && ctx.Err() == nil {
					h.logger.Error("cannot post an event", zap.ByteString("event", body), zap.Error(err))
				}
			}
		}
	})
	return nil
}

// Cleanup waits for the event that is being posted. Events in the queue are dropped: the context has
// ended.
func (h *Webhook) Cleanup() error {
	h.posting.Wait()
	return nil
}

// Handle queues an event. It never waits, since the code that emits the event waits for Handle. If
// the queue is full, it returns an error.
func (h *Webhook) Handle(_ context.Context, e caddy.Event) error {
	body, err := json.Marshal(e.CloudEvent())
	if err != nil {
		return err
	}
	select {
	case h.queue <- body:
		return nil
	default:
		return errors.New("codex_webhook: too many events wait to be posted")
	}
}

// webhookClient follows no redirects. Most redirects turn the POST into a GET, so the event would be lost.
// The new address would also get the URL, which may be secret, as Referer.
var webhookClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func postEvent(ctx context.Context, address string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/cloudevents+json")
	resp, err := webhookClient.Do(req)
	if err != nil {
		if urlErr := (*url.Error)(nil); errors.As(err, &urlErr) {
			err = urlErr.Err // without the URL, which is often a secret
		}
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 { // also a redirect
		return errors.New(resp.Status)
	}
	return nil
}

var (
	_ caddyevents.Handler   = (*Webhook)(nil)
	_ caddy.Provisioner     = (*Webhook)(nil)
	_ caddy.CleanerUpper    = (*Webhook)(nil)
	_ caddyfile.Unmarshaler = (*Webhook)(nil)
)
