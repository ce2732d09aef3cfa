package codexrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// unixPrefix begins the address of a unix socket, as Caddy writes it:
// unix//run/codex.sock is the socket /run/codex.sock.
const unixPrefix = "unix/"

// endpointForms are the addresses that can be dialled, for errors.
const endpointForms = "ws://host:port, wss://host:port or unix//path"

// endpoint is where a remote app-server is dialled.
type endpoint struct {
	url     string // ws:// or wss://
	network string // of the address: tcp or unix
	address string
}

// maxSocketPath is how long the path of a unix socket may be, in bytes.
const maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// CheckAddress returns an error if [DialWebSocket] cannot dial the address, which
// is ws://HOST:PORT, wss://HOST or unix//path. The error contains no part of the
// address that may be a secret.
func CheckAddress(address string) error {
	_, err := parseEndpoint(address)
	return err
}

func parseEndpoint(address string) (endpoint, error) {
	if socket, ok := strings.CutPrefix(address, unixPrefix); ok {
		return parseSocket(socket)
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return endpoint{}, fmt.Errorf("the address must be %s", endpointForms) // the text of err may hold a secret
	case u.Scheme != "ws" && u.Scheme != "wss":
		return endpoint{}, fmt.Errorf("the address must be %s, not %s", endpointForms, u.Redacted())
	case u.User != nil:
		return endpoint{}, errors.New("the address must hold no user or password; the token is given apart from it")
	case u.Hostname() == "":
		return endpoint{}, fmt.Errorf("the address must be %s, with a host", endpointForms)
	case u.Fragment != "" || u.RawQuery != "" || u.ForceQuery:
		return endpoint{}, fmt.Errorf("the address of %s must end with its path, without a query or a fragment", u.Host)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"ws": "80", "wss": "443"}[u.Scheme]
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return endpoint{}, fmt.Errorf("the address of %s has a port that is not between 1 and 65535", u.Hostname())
	}
	// The URL is dialled as http or https, for which the rules are stricter:
	// http://:: is invalid, ws://:: is not.
	if _, err := url.Parse("http" + strings.TrimPrefix(u.String(), "ws")); err != nil {
		return endpoint{}, fmt.Errorf("the address of %s must be %s", u.Hostname(), endpointForms)
	}
	return endpoint{url: u.String(), network: "tcp", address: net.JoinHostPort(u.Hostname(), port)}, nil
}

// parseSocket is parseEndpoint for the path of a unix socket.
func parseSocket(socket string) (endpoint, error) {
	clean := path.Clean(socket)
	switch {
	case !path.IsAbs(socket) || clean == "/":
		return endpoint{}, errors.New("a unix socket is written unix//path, with its whole path")
	case len(clean) > maxSocketPath || strings.ContainsRune(clean, 0):
		return endpoint{}, fmt.Errorf("the path of a unix socket has at most %d bytes, none of them zero", maxSocketPath)
	}
	return endpoint{url: "ws://localhost/", network: "unix", address: clean}, nil
}

// maxRefusal bounds how much of the body of an HTTP error is quoted, in bytes.
const maxRefusal = 200

// dialError adds to err, the error of a dial, what an operator can do.
func dialError(ctx context.Context, address string, err error) error {
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w to %s: nobody listens there; start the app-server there with `codex app-server --listen …` (%w)", ErrUnreachable, address, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w to %s: this user may not use the socket; run the app-server as the same user, or give this one access (%w)", ErrUnreachable, address, err)
	}
	return fmt.Errorf("%w to %s: %w; check the address, and that the app-server runs there", ErrUnreachable, address, err)
}

// refusalError is the error for an HTTP response in place of a WebSocket, with
// what an operator can do.
func refusalError(address string, withToken bool, response *http.Response) error {
	said := ""
	if response.Body != nil {
		// The library has read the beginning of it into memory.
		body, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
		if text := strings.ToValidUTF8(strings.Join(strings.Fields(string(body)), " "), ""); text != "" {
			said = ": " + text
		}
	}
	class, what := ErrRefused, "no WebSocket is served there; check the address"
	switch {
	case response.StatusCode == http.StatusUnauthorized && withToken:
		what = "the token is not the one it was started with (--ws-token-file)"
	case response.StatusCode == http.StatusUnauthorized:
		what = "it wants a token; configure the one it was started with (--ws-token-file)"
	case response.StatusCode == http.StatusForbidden:
		what = "something there forbids it; codex itself refuses requests with an Origin header, which a proxy must not add"
	case response.StatusCode >= http.StatusInternalServerError:
		class, what = ErrUnreachable, "the server in front of it does not reach it; start the app-server there with `codex app-server --listen …`"
	}
	return fmt.Errorf("%s: %w: %s (HTTP %d%s)", address, class, what, response.StatusCode, said)
}
