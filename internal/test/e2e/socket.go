package e2e

import (
	"encoding/json"
	"net/http"

	"github.com/coder/websocket"

	"github.com/caddy-codex/caddy-codex/internal/test/apischema"
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
	if err != nil {
		s.T.Fatal(err)
	}
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
		if err != nil {
			s.T.Fatal(err)
		}
		var e ResponseEvent
		if err := json.Unmarshal(message, &e); err != nil {
			s.T.Fatal(err)
		}
		if e.Type == "error" {
			refused = new(APIError)
			if err := json.Unmarshal(message, refused); err != nil {
				s.T.Fatal(err)
			}
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
	if err := s.Conn.Write(Context(s.T), websocket.MessageText, []byte(message)); err != nil {
		s.T.Fatal(err)
	}
}
