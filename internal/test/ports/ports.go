// Package ports finds ports for the servers of tests.
package ports

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports that Free chooses from. Connections that name none mostly get others, from 32768 on.
const (
	first = 10000
	last  = 29999
)

// Free returns a loopback address whose port is free. Unlike one that the system would choose,
// no connection takes it before the server has it.
func Free() (string, error) {
	var err error
	for range 100 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.IntN(last-first+1)))
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", errors.Join(errors.New("no port is free"), err)
}
