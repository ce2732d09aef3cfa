package main

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/scriptedmodel"
)

// model is the scripted model, served on loopback.
type model struct {
	url    string // of the API, with /v1
	script *scriptedmodel.Server
	server *http.Server
	served chan struct{} // closed when the server has ended
}

func startModel() (*model, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the scripted model: %w", err)
	}
	m := &model{
		url:    "http://" + listener.Addr().String() + "/v1",
		script: scriptedmodel.New(scriptedmodel.Options{}),
		served: make(chan struct{}),
	}
	m.server = &http.Server{Handler: m.script, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(m.served)
		_ = m.server.Serve(listener) // until close
	}()
	return m, nil
}

func (m *model) close() {
	m.script.Close()
	_ = m.server.Close()
	<-m.served
}
