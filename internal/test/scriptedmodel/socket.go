package scriptedmodel

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// maxWaiting bounds the waiting messages of a WebSocket.
const maxWaiting = 16

// socket is a WebSocket. It answers requests one by one.
type socket struct {
	server *Server
	number int
	header http.Header // header of the handshake
	plan   Plan        // of the handshake
	conn   *websocket.Conn
	last   *exchange // what the next request may continue; nil for nothing
}

// exchange is a response with its history.
type exchange struct {
	id    string
	items []string // JSON: the whole input and the output
}

// serveSocket serves a WebSocket until it ends.
func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request) {
	if !s.sockets.begin() {
		refuse(w, HTTPError{Status: http.StatusServiceUnavailable})
		return
	}
	defer s.sockets.handlers.Done()
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // Accept has answered
	}
	conn.SetReadLimit(maxBody)
	sock := &socket{server: s, header: r.Header.Clone(), plan: planOf(r.Context()), conn: conn}
	s.log.update(func(stats *Stats) {
		stats.Sockets++
		sock.number = stats.Sockets
	})
	defer s.sockets.add(sock)()
	sock.serve()
}

// serve answers messages until one side closes the WebSocket.
func (sock *socket) serve() {
	ctx, cancel := context.WithCancel(sock.server.ctx)
	messages := make(chan []byte, maxWaiting)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer cancel()
		defer close(messages)
		sock.read(ctx, messages)
	})
	for message := range messages {
		if err := sock.answer(ctx, message); err != nil {
			break
		}
	}
	cancel()
	_ = sock.conn.CloseNow()
	reader.Wait()
}

// read sends messages to a channel until the connection or ctx ends.
func (sock *socket) read(ctx context.Context, messages chan<- []byte) {
	for {
		_, message, err := sock.conn.Read(ctx)
		if err != nil {
			return
		}
		select {
		case messages <- message:
		case <-ctx.Done():
			return
		}
	}
}

// answer answers a message. After an error the connection cannot be used.
func (sock *socket) answer(ctx context.Context, message []byte) error {
	last := sock.last
	sock.last = nil
	create, err := decodeCreate(message)
	if err != nil {
		return sock.refuse(ctx, badRequest(err.Error()))
	}
	found := create.expand(last)
	req, err := sock.server.receive(sock.header, create.body, Delivery{
		Transport: WebSocket, Socket: sock.number, Bytes: len(message), NewItems: len(create.input),
	}, sock.plan)
	switch {
	case err != nil:
		return sock.refuse(ctx, badRequest(err.Error()))
	case !found:
		return sock.refuse(ctx, notFound(req.PreviousResponseID))
	}
	p, err := sock.respond(ctx, req)
	if err != nil || p == nil || p.response["status"] == "failed" {
		return err
	}
	return sock.remember(p, create.items)
}

// respond answers a request. The player is nil if the request is refused.
func (sock *socket) respond(ctx context.Context, req Request) (*player, error) {
	to := socketWriter{ctx: ctx, conn: sock.conn}
	if req.IsWarmup() {
		req.plan = unlimited{}
		p := newPlayer(ctx, to, req, Script{Usage: new(Usage)})
		return p, p.play()
	}
	if spent := req.plan.Refuse(req.Model); spent != nil {
		return nil, sock.refuse(ctx, spent)
	}
	script := sock.server.script(req)
	if refusal, ok := script.End.(refuser); ok {
		return nil, sock.refuse(ctx, refusal)
	}
	if limits := req.plan.Event(req.Model); limits != nil {
		if err := to.WriteEvent("codex.rate_limits", limits); err != nil {
			return nil, err
		}
	}
	return sock.server.play(ctx, to, req, script)
}

func (sock *socket) refuse(ctx context.Context, e refuser) error {
	message, err := e.refuse(time.Now()).message()
	if err != nil {
		return err
	}
	return socketWriter{ctx: ctx, conn: sock.conn}.WriteEvent("error", message)
}

// remember sets the response that the next request may continue.
func (sock *socket) remember(p *player, input []string) error {
	e := &exchange{id: p.response["id"].(string), items: input}
	for _, item := range p.items {
		raw, err := json.Marshal(item)
		if err != nil {
			return err
		}
		e.items = append(e.items, string(raw))
	}
	sock.last = e
	return nil
}

// socketWriter writes each event as a message.
type socketWriter struct {
	ctx  context.Context
	conn *websocket.Conn
}

func (socketWriter) Flush() error { return nil }
func (socketWriter) Close() error { return nil }

func (w socketWriter) WriteEvent(_ string, data []byte) error {
	ctx, cancel := context.WithTimeout(w.ctx, writeTimeout)
	defer cancel()
	return w.conn.Write(ctx, websocket.MessageText, data)
}
