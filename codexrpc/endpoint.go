package codexrpc

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strings"
)

// unixPrefix begins the address of a unix socket, as Caddy writes it:
// unix//run/codex.sock is the socket /run/codex.sock.
const unixPrefix = "unix/"

// endpoint is where a remote app-server is dialled.
type endpoint struct {
	url     string // ws:// or wss://
	network string // of the address: tcp or unix
	address string
}

// CheckConnect says what is wrong with the address of a remote app-server (see
// [ProcessConfig].Connect), or nil.
func CheckConnect(address string) error {
	_, err := parseEndpoint(address)
	return err
}

func parseEndpoint(address string) (endpoint, error) {
	if socket, ok := strings.CutPrefix(address, unixPrefix); ok {
		if socket = path.Clean(socket); socket == "." || socket == "/" {
			return endpoint{}, fmt.Errorf("the address %q names no socket; write unix//path/of.sock", address)
		}
		return endpoint{url: "ws://localhost/", network: "unix", address: socket}, nil
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return endpoint{}, errors.New("the address is not a URL") // its text may hold a secret
	case u.Scheme != "ws" && u.Scheme != "wss":
		return endpoint{}, fmt.Errorf("the address %q is none of ws://HOST:PORT, wss://HOST and unix//path/of.sock", u.Redacted())
	case u.User != nil:
		return endpoint{}, fmt.Errorf("the address %q holds credentials; give the token on its own", u.Redacted())
	case u.Hostname() == "":
		return endpoint{}, fmt.Errorf("the address %q names no host", address)
	case u.Fragment != "" || u.RawQuery != "":
		return endpoint{}, fmt.Errorf("the address of %q ends with its path: no query and no fragment", u.Host)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"ws": "80", "wss": "443"}[u.Scheme]
	}
	return endpoint{url: u.String(), network: "tcp", address: net.JoinHostPort(u.Hostname(), port)}, nil
}
