// Package imagefetch fetches the images at URLs in a request, and makes data URLs of them, for Codex.
//
// The URLs come from clients. Fetching must not give clients access to this process's network (SSRF).
// So only https on port 443 of public unicast addresses is allowed. The address is checked at each
// connection, so that neither DNS nor a redirect can bypass the check. All that is read has a limit. The
// message is the same for every host that may not be reached.
package imagefetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// Options configure a [Fetcher]. Production uses the zero value. Only tests set the fields.
type Options struct {
	// Allow replaces the check of the addresses. If it is set, URLs may also have other ports than
	// 443.
	Allow func(netip.AddrPort) bool
	// RootCAs replaces the certificates of the system.
	RootCAs *x509.CertPool
}

// Fetcher fetches images. Its methods are safe for concurrent use.
type Fetcher struct {
	client    *http.Client
	transport *http.Transport
	anyPort   bool
	limits    limits
}

// limits bound the cost of fetching the images of one request.
type limits struct {
	concurrent int           // how many images are fetched at the same time
	imageBytes int64         // the most bytes of one image
	totalBytes int64         // the most bytes of all images together
	imageTime  time.Duration // how long one image may take, with its redirects
	totalTime  time.Duration // how long all images may take together
}

var standardLimits = limits{
	concurrent: 4,
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

// Close closes idle connections. The connections of a running Fetch are closed later by themselves.
func (f *Fetcher) Close() { f.client.CloseIdleConnections() }

// Fetch fetches the images at urls, which are at most [prompt.MaxRemoteImages] different URLs. It returns
// the images by URL, as data URLs (data:image/png;base64,…) of at most 43 MiB together. If an image
// fails, Fetch cancels the others and returns a [*Failure], or the error of ctx. Before Fetch keeps n
// more bytes, it calls grow(n), never twice at the same time. If grow returns false, the error is
// [ErrNoMemory].
func (f *Fetcher) Fetch(ctx context.Context, urls []string, grow func(n int64) bool) (map[string]string, error) {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(f.limits.concurrent)
	groupCtx, stop := context.WithTimeoutCause(groupCtx, f.limits.totalTime,
		reasonf("the images of the request took longer than %s together", f.limits.totalTime))
	defer stop()
	total := &allowance{bytes: f.limits.totalBytes, grow: grow}
	var mu sync.Mutex // guards images
	images := make(map[string]string, len(urls))
	for _, url := range urls {
		group.Go(func() error {
			ctx, cancel := context.WithTimeoutCause(groupCtx, f.limits.imageTime, reasonf("it took longer than %s", f.limits.imageTime))
			defer cancel()
			image, err := f.image(ctx, url, total)
			if errors.Is(err, ErrNoMemory) {
				return err
			}
			if err != nil {
				return &Failure{URL: url, Reason: string(explain(ctx, err))}
			}
			mu.Lock()
			defer mu.Unlock()
			images[url] = image
			return nil
		})
	}
	err := group.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	}
	return images, nil
}

func (f *Fetcher) image(ctx context.Context, url string, total *allowance) (string, error) {
	u, err := f.checkURL(url)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", errURL
	}
	request.Header.Set("User-Agent", "caddy-codex")
	request.Header.Set("Accept", strings.Join(prompt.ImageTypes, ", "))
	request.Header.Set("Accept-Encoding", "identity")
	response, err := f.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text := cmp.Or(http.StatusText(response.StatusCode), "an unknown status")
		return "", reasonf("its server answered %d (%s)", response.StatusCode, text)
	}
	return f.read(response, total)
}

const (
	sniffSize   = 512     // bytes that http.DetectContentType reads
	maxPrealloc = 1 << 20 // the most bytes that are allocated because of a Content-Length
)

// read returns an image as a data URL. The media type is found in the content: headers are often wrong.
func (f *Fetcher) read(response *http.Response, total *allowance) (string, error) {
	body := &limitedReader{body: response.Body, limits: f.limits, total: total}
	if response.ContentLength > body.imageBytes {
		return "", body.tooLarge()
	}
	head := make([]byte, sniffSize)
	n, err := io.ReadFull(body, head)
	switch {
	case errors.Is(err, io.EOF):
		return "", errEmpty
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return "", err
	}
	media := http.DetectContentType(head[:n])
	if !slices.Contains(prompt.ImageTypes, media) {
		return "", errNoImage
	}
	var out strings.Builder
	out.Grow(len("data:image/jpeg;base64,") + base64.StdEncoding.EncodedLen(int(min(max(response.ContentLength, 0), maxPrealloc))))
	out.WriteString("data:" + media + ";base64,")
	encoder := base64.NewEncoder(base64.StdEncoding, &out)
	_, _ = encoder.Write(head[:n]) // a strings.Builder returns no errors
	if _, err := io.Copy(encoder, body); err != nil {
		return "", err
	}
	_ = encoder.Close()
	if _, f := prompt.CheckImage(out.String()); f != nil {
		return "", reasonf("it %s", f.Problem)
	}
	return out.String(), nil
}

// limitedReader reads the body of an image. It fails if this image or all images together are too large.
type limitedReader struct {
	body io.Reader
	limits
	size  int64 // how many bytes of the image were read
	total *allowance
}

func (r *limitedReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if r.size += int64(n); r.size > r.imageBytes {
		return 0, r.tooLarge()
	}
	if err := r.total.take(n); err != nil {
		return 0, err
	}
	return n, err
}

func (r *limitedReader) tooLarge() error {
	return reasonf("it is larger than %s", humanize.IBytes(uint64(r.imageBytes)))
}

// ErrNoMemory means that there is no memory for an image.
var ErrNoMemory = errors.New("no memory for the images")

// allowance bounds the bytes of all images of a request together. It is safe for concurrent use.
type allowance struct {
	bytes int64              // the most bytes of all images together
	grow  func(n int64) bool // reserves n bytes of memory for data URLs; false: there is no room

	mu    sync.Mutex
	taken int64
}

func (a *allowance) take(n int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.taken += int64(n); a.taken > a.bytes {
		return reasonf("the images of the request are larger than %s together", humanize.IBytes(uint64(a.bytes)))
	}
	if !a.grow(int64(base64.StdEncoding.EncodedLen(n))) {
		return ErrNoMemory
	}
	return nil
}

// Failure is the error for an image that cannot be fetched. It counts as an error of the client, as with
// OpenAI, even if the server of the image has failed.
type Failure struct {
	URL    string // as given to Fetch
	Reason string // a clause for the client, such as "it is empty"
}

// Error returns a sentence for the client, without the URL's query, which may contain a secret.
func (f *Failure) Error() string {
	return fmt.Sprintf("The image %s cannot be fetched: %s.", redactURL(f.URL), f.Reason)
}

// reason says why an image cannot be fetched, in a clause for the client. explain replaces every
// other error by a reason, so that clients see no text of the network stack.
type reason string

func (r reason) Error() string { return string(r) }

const (
	errURL       = reason("its URL is not valid")
	errLongURL   = reason("its URL is too long")
	errScheme    = reason("only https URLs are fetched")
	errUser      = reason("its URL must not hold a user or a password")
	errPort      = reason("only port 443 is asked")
	errRedirects = reason("its server redirects too often")
	// errAddress is for hosts that are not allowed and for hosts that do not exist. Different
	// messages would show which names and addresses the internal network has.
	errAddress     = reason("no public address was found for its host")
	errCertificate = reason("the certificate of its server is not valid")
	errUnreachable = reason("its server could not be reached or broke off")
	errNoImage     = reason("it is not an image of the type png, jpeg, gif or webp")
	errEmpty       = reason("it is empty")
)

func reasonf(format string, args ...any) reason { return reason(fmt.Sprintf(format, args...)) }

func explain(ctx context.Context, err error) reason {
	var known reason
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, new(*net.DNSError)): // before the deadline: internal names get this reason even if no resolver answers
		return errAddress
	case errors.As(context.Cause(ctx), &known):
		return known
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return errCertificate
	}
	return errUnreachable
}
