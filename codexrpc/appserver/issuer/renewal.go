package issuer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// askTime bounds a renewal. Codex waits for 15 seconds.
	askTime = 30 * time.Second
	// keepTokens, keepRefusal and keepFailure are how long the relay repeats an answer to later
	// requests with the same refresh token. keepTokens is for new tokens: within that time, every
	// app-server has read them. keepRefusal is for a refusal: it is final, so asking the issuer
	// again is useless. keepFailure is for any other failure: Codex asks again at once, and gets
	// the same answer.
	keepTokens, keepRefusal, keepFailure = 10 * time.Minute, time.Minute, time.Second
	// keepFresh is how long tokens count as new. If an app-server asks to renew new tokens, the
	// relay answers with these tokens: the app-server asks only because it has waited while another
	// one renewed the login.
	keepFresh = 5 * time.Second
	// storeWait is how long the relay gives an app-server that has received tokens to store them.
	// If the relay stored them first, the app-server would find a changed login in the file, and
	// its turn would fail.
	storeWait = 2 * time.Second
	// maxRenewals bounds the renewals that are remembered.
	maxRenewals = 256
)

// answer is an HTTP response of the issuer.
type answer struct {
	status      int
	contentType string
	body        []byte
}

// renewal is the renewal for one refresh token.
type renewal struct {
	done   chan struct{} // closed when answer is set
	answer answer
	until  time.Time // when the renewal is forgotten; zero: it is under way
	asking int       // how many requests wait for the answer or have got it
}

// leave is called when a request does not wait any longer.
func (r *renewal) leave() {
	renewals.Lock()
	defer renewals.Unlock()
	r.asking--
}

// renewals maps refresh tokens to the renewals of all relays. The relays share this map, since the
// app-servers of several relays may have the same login.
var renewals = struct {
	sync.Mutex
	of map[string]*renewal
}{of: make(map[string]*renewal)}

// renew returns the renewal for a refresh token, and begins it if there is none. After the renewal,
// the new tokens are in file. renew returns nil if there are too many renewals, or if the relay is
// closed.
func (r *Relay) renew(refresh, file string, ask func() answer) *renewal {
	renewals.Lock()
	defer renewals.Unlock()
	now := time.Now()
	for token, known := range renewals.of {
		if !known.until.IsZero() && now.After(known.until) {
			delete(renewals.of, token)
		}
	}
	if known := renewals.of[refresh]; known != nil {
		known.asking++
		return known
	}
	if r.closed || len(renewals.of) >= maxRenewals {
		return nil
	}
	made := &renewal{done: make(chan struct{}), asking: 1}
	renewals.of[refresh] = made
	r.running.Go(func() {
		got := ask()
		asking := made.end(got, time.Now())
		if got.status == http.StatusOK {
			r.store(file, refresh, got, asking > 0)
		}
	})
	return made
}

// end ends a renewal, and gives the answer got to all requests that wait for the renewal. It
// returns the number of these requests.
func (r *renewal) end(got answer, now time.Time) (asking int) {
	renewals.Lock()
	defer renewals.Unlock()
	r.answer, r.until = got, now.Add(got.keep())
	if fresh := got.refresh(); fresh != "" && renewals.of[fresh] == nil {
		renewals.of[fresh] = &renewal{done: r.done, answer: got, until: now.Add(keepFresh)}
	}
	close(r.done)
	return r.asking
}

// store stores the new tokens of an answer in file. If answered is true, an app-server has got the
// answer: then store first waits storeWait, so that the app-server can store the tokens itself.
func (r *Relay) store(file, refresh string, got answer, answered bool) {
	if answered {
		timer := time.NewTimer(storeWait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.closing:
		}
	}
	if err := store(file, refresh, got.body, time.Now()); err != nil {
		r.log().Error("the new tokens of codex's login could not be stored", "error", err)
	}
}

// keep returns how long the answer is remembered.
func (a *answer) keep() time.Duration {
	switch {
	case a.status == http.StatusOK:
		return keepTokens
	case (a.status == http.StatusBadRequest || a.status == http.StatusUnauthorized) && json.Valid(a.body):
		return keepRefusal
	}
	return keepFailure
}

// refresh returns the new refresh token; empty: there is none.
func (a *answer) refresh() string {
	var issued struct {
		Refresh string `json:"refresh_token"`
	}
	if a.status != http.StatusOK || json.Unmarshal(a.body, &issued) != nil {
		return ""
	}
	return issued.Refresh
}

// write writes the answer. It ignores errors, which mean that the client left.
func (a *answer) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", a.contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

// passed are the headers of Codex's request that the issuer gets.
var passed = []string{"Accept", "Content-Type", "User-Agent", "Originator"}

// ask asks the issuer for new tokens. If the issuer does not answer, ask returns a 502.
func (r *Relay) ask(i Issuer, header http.Header, body []byte) answer {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	got, err := i.post(ctx, header, body)
	if err == nil && got.status != http.StatusOK {
		err = fmt.Errorf("it answers %d %s", got.status, http.StatusText(got.status))
	}
	if err != nil {
		r.log().Warn("codex's login could not be renewed at its issuer", "error", err)
		if got.status == 0 {
			got = answer{http.StatusBadGateway, "text/plain", []byte("the issuer of the login cannot be reached")}
		}
		return got
	}
	r.log().Info("codex's login was renewed")
	return got
}

// post sends a request for new tokens to the issuer. If it returns an error, the answer has no
// status.
func (i *Issuer) post(ctx context.Context, header http.Header, body []byte) (answer, error) {
	client, err := i.client()
	if err != nil {
		return answer{}, err
	}
	defer client.CloseIdleConnections()
	address, _ := last(i.Env, Variable)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, cmp.Or(address, DefaultURL), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for _, name := range passed {
		request.Header[name] = header[name]
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = errors.New("its answer is too long")
	}
	if err != nil {
		return answer{}, err
	}
	return answer{response.StatusCode, response.Header.Get("Content-Type"), text}, nil
}
