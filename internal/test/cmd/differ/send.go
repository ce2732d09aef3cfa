package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"
)

// answer is what a server has answered to a step.
type answer struct {
	status int
	header http.Header
	body   []byte
}

const (
	stepTime = 40 * time.Second
	pollTime = 10 * time.Millisecond
)

// transport does not follow redirects and does not decode bodies.
var transport = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16}

// ask sends the steps of a case to a server. Each may name ids of the answers before it.
func ask(ctx context.Context, url string, steps []step) (answers []answer) {
	var seen []byte
	for _, s := range steps {
		s.path, s.body = withIDs(s.path, seen), withIDs(s.body, seen)
		ctx, cancel := context.WithTimeout(ctx, stepTime)
		a, err := send(ctx, url, s, &seen)
		cancel()
		if err != nil {
			a.body = fmt.Appendf(a.body, "\n[%v]", err)
		}
		answers, seen = append(answers, a), append(seen, a.body...)
	}
	return answers
}

// idNames are the texts in requests which stand for the last id of a kind.
var idNames = map[string]*regexp.Regexp{
	"$resp": regexp.MustCompile(`"(resp_[A-Za-z0-9_-]+)"`),
	"$conv": regexp.MustCompile(`"(conv_[A-Za-z0-9_-]+)"`),
	"$msg":  regexp.MustCompile(`"(msg_[A-Za-z0-9_-]+)"`),
	"$call": regexp.MustCompile(`"((?:call|tool|toolu)_[A-Za-z_-]*[0-9][A-Za-z0-9_-]+)"`),
}

func withIDs(text string, seen []byte) string {
	for name, id := range idNames {
		if !strings.Contains(text, name) {
			continue
		}
		if found := id.FindAllSubmatch(seen, -1); found != nil {
			text = strings.ReplaceAll(text, name, string(found[len(found)-1][1]))
		}
	}
	return text
}

func send(ctx context.Context, url string, s step, seen *[]byte) (answer, error) {
	switch s.method {
	case "SOCKET":
		return sendSocket(ctx, url, s, seen)
	case "POLL":
		s.method = http.MethodGet
		for {
			a, err := send(ctx, url, s, seen)
			if status := gjson.GetBytes(a.body, "status").Str; err != nil || status != "in_progress" && status != "queued" {
				return a, err
			}
			time.Sleep(pollTime)
		}
	}
	request, err := http.NewRequestWithContext(ctx, s.method, url+s.path, strings.NewReader(s.body))
	if err != nil {
		return answer{}, err
	}
	setHeader(request.Header, s.header)
	request.Host = request.Header.Get("Host")
	response, err := transport.RoundTrip(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, body}, err
}

func setHeader(h http.Header, lines []string) {
	h.Set("Content-Type", "application/json")
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		h.Set(name, value)
	}
}

// lastEvents are the types of the last event of a response over a WebSocket.
var lastEvents = []string{"response.completed", "response.failed", "response.incomplete", "error"}

// sendSocket sends messages over a WebSocket. The answer has all events, one a line.
func sendSocket(ctx context.Context, url string, s step, seen *[]byte) (a answer, err error) {
	header := http.Header{}
	setHeader(header, s.header)
	conn, response, err := websocket.Dial(ctx, url+s.path, &websocket.DialOptions{HTTPHeader: header})
	if response != nil {
		a = answer{status: response.StatusCode, header: response.Header}
	}
	if err != nil {
		return a, fmt.Errorf("no WebSocket: %d", a.status) // the error has a random key
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1)
	var body bytes.Buffer
	for _, message := range gjson.Parse(s.body).Array() {
		text := withIDs(message.Raw, slices.Concat(*seen, body.Bytes()))
		if err := conn.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
			break // the answer has the reason
		}
		for ended := false; !ended; {
			_, event, err := conn.Read(ctx)
			if err != nil {
				fmt.Fprintf(&body, "closed: %d\n", websocket.CloseStatus(err))
				break
			}
			fmt.Fprintf(&body, "data: %s\n", event)
			ended = slices.Contains(lastEvents, gjson.GetBytes(event, "type").Str)
		}
	}
	a.body = body.Bytes()
	return a, nil
}
