package appserver

import (
	"context"
	"net/http"
	"strings"
	"time"
)

const (
	// lookPause is the pause before each look whether a silent account back end answers again, and
	// lookTime bounds a look. Requests are to be served within two seconds, of which a start takes half
	// of one.
	lookPause, lookTime = 300 * time.Millisecond, 700 * time.Millisecond
	// accountHost has the account back end, and accountPath is what Codex asks there.
	accountHost = "https://chatgpt.com/backend-api"
	accountPath = "/wham/accounts/check"
)

// awaitAccountBackend has an instance replaced whose question for the account waits for an answer that
// is lost, once the back end answers again: Codex asks again only after five seconds. It ends with ctx.
func (p *Process) awaitAccountBackend(ctx context.Context, in *instance) {
	client, err := p.relay.Client()
	if err != nil {
		return // Codex says so, too
	}
	defer client.CloseIdleConnections()
	for answers := 0; answers < 2; { // after the first, Codex may have its own
		select {
		case <-time.After(lookPause):
		case <-ctx.Done():
			return
		}
		if answers++; !p.accountAnswers(ctx, client, in) {
			answers = 0
		}
	}
	p.do(func(s *supervisor) {
		if in == s.serving && ctx.Err() == nil {
			s.replaceForHealth("the account back end answers again, and not to its question", true)
		}
	})
}

// accountAnswers reports whether the back end tells the account of a login soon.
func (p *Process) accountAnswers(ctx context.Context, client *http.Client, in *instance) bool {
	login, err := readLogin(in.home.operator)
	base := strings.TrimSuffix(in.home.config.ChatGPTBaseURL, "/")
	if base == "" {
		base = accountHost
	}
	if err != nil || !strings.HasSuffix(base, "/backend-api") {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+accountPath, nil)
	if err != nil {
		return false
	}
	request.Header.Set("Authorization", "Bearer "+login.Access)
	request.Header.Set("Chatgpt-Account-Id", login.Account)
	request.Header.Set("User-Agent", p.cfg.Client.Name+"/"+p.cfg.Client.Version)
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close() // its status is enough
	return response.StatusCode == http.StatusOK
}
