package e2e

import (
	"encoding/json"
	"net/http"

	"github.com/coder/websocket"

	"github.com/caddy-codex/caddy-codex/internal/test/apischema"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// ResponsesSocket is a client's WebSocket at /v1/responses.
type ResponsesSocket struct {
	*Site
	Conn *websocket.Conn
}

// DialResponses opens a WebSocket.
func (s *Site) DialResponses(header http.Header) *ResponsesSocket {
	s.T.Helper()
	conn, _, err := websocket.Dial(Context(s.T), s.URL+"/v1/responses", &websocket.DialOptions{HTTPHeader: header})
	must.OK(s.T, err)
	s.T.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(1 << 20)
	return &ResponsesSocket{s, conn}
}

// Ask sends a request and reads the events of its answer, or the error.
func (s *ResponsesSocket) Ask(request Fields) (r *Response, refused *APIError) {
	s.T.Helper()
	request["type"] = "response.create"
	s.Send(EncodeJSON(request))
	for n := 0; ; n++ {
		_, message, err := s.Conn.Read(Context(s.T))
		must.OK(s.T, err)
		var e ResponseEvent
		must.OK(s.T, json.Unmarshal(message, &e))
		if e.Type == "error" {
			refused = new(APIError)
			must.OK(s.T, json.Unmarshal(message, refused))
			return nil, refused
		}
		if err := apischema.CheckEvent(message); err != nil || e.Sequence != n {
			s.T.Errorf("%s: %v", message, err)
		}
		switch e.Type {
		case "response.completed", "response.incomplete", "response.failed":
			return s.ParseResponse(e.Response), nil
		}
	}
}

// Respond sends a request and wants a response.
func (s *ResponsesSocket) Respond(request Fields) *Response {
	s.T.Helper()
	r, refused := s.Ask(request)
	if r == nil {
		s.T.Fatal(EncodeJSON(refused))
	}
	return r
}

// Send sends a message.
func (s *ResponsesSocket) Send(message string) {
	s.T.Helper()
	must.OK(s.T, s.Conn.Write(Context(s.T), websocket.MessageText, []byte(message)))
}
