package imagefetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

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
