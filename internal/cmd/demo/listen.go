package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
)

// listener is a listening socket of this process that Caddy is given. Caddy's own could
// share its port with another process, which would get half of the requests.
type listener struct {
	socket net.Listener
	file   *os.File
}

func (l listener) close() {
	_ = l.socket.Close()
	_ = l.file.Close()
}

// listen listens on a port of the loopback addresses.
func listen(port int) ([]listener, error) {
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("there is no port %d: choose one with make run PORT=8080", port)
	}
	var all []listener
	for _, address := range []string{"127.0.0.1", "::1"} {
		socket, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			return nil, fmt.Errorf("port %d is in use: end what uses it, or choose another one with make run PORT=%d", port, port%65535+1)
		case errors.Is(err, syscall.EACCES):
			return nil, fmt.Errorf("port %d needs more rights than you have: choose another one with make run PORT=8080", port)
		case err != nil && address == "::1":
			continue // a machine without IPv6
		case err != nil:
			return nil, fmt.Errorf("listening: %w", err)
		}
		file, err := socket.(*net.TCPListener).File()
		if err != nil {
			return nil, fmt.Errorf("listening: %w", err)
		}
		all = append(all, listener{socket, file})
	}
	return all, nil
}
