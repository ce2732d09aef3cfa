package scriptedmodel

import (
	"fmt"
	"net"
	"net/http"
	"time"
)

// headerTimeout is how long a client may take to send a request header.
const headerTimeout = 10 * time.Second

// Local is a Server that listens on a free port of this machine.
type Local struct {
	*Server
	// URL is the base URL of the API, with /v1, as in Codex's base_url.
	URL string

	http   *http.Server
	served chan struct{} // closed when serving has ended
}

// Listen serves a new Server on a free port of the loopback interface until Close.
func Listen(opts Options) (*Local, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the scripted model: %w", err)
	}
	l := &Local{
		Server: New(opts),
		URL:    "http://" + listener.Addr().String() + "/v1",
		served: make(chan struct{}),
	}
	l.http = &http.Server{Handler: l.Server, ReadHeaderTimeout: headerTimeout}
	go func() {
		defer close(l.served)
		_ = l.http.Serve(listener) // returns on Close
	}()
	return l, nil
}

// Close cuts all streams and waits until serving has ended.
func (l *Local) Close() {
	l.Server.Close()
	_ = l.http.Close() // only fails for connections that are closed already
	<-l.served
}
