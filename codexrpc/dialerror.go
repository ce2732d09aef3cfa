package codexrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"syscall"
)

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
