package faults

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// keyFile writes a file of keys with these limits and returns the option that names it.
func keyFile(t *testing.T, keys map[string]string) (option string) {
	t.Helper()
	var content strings.Builder
	for key, limits := range keys {
		fmt.Fprintf(&content, "key %s {\nhash sha256:%x\n%s\n}\n", key, sha256.Sum256([]byte(key)), limits)
	}
	path := filepath.Join(t.TempDir(), "keys")
	e2e.WriteFile(t, path, content.String())
	return "api_keys_file " + path + "\n"
}

// usage returns what /v1/usage says to a key.
func usage(s *e2e.Site, key string) gjson.Result {
	s.T.Helper()
	response := s.Do(http.MethodGet, "/v1/usage", nil, e2e.Bearer(key))
	text := s.Read(response)
	if response.StatusCode != http.StatusOK {
		s.T.Fatal(response.Status, text)
	}
	return gjson.Parse(text)
}

// Clients that use up a limit, and how often each of them is refused before it stops.
const spenders, refusals = 8, 4

const refused = "429 rate_limit_exceeded"

// spend lets clients use up the limit of a key at full speed, and counts the answers by their status
// and the code of their error. between is called after each answer.
func spend(s *e2e.Site, key, prompt string, between func(answer string)) map[string]int {
	s.T.Helper()
	end, counts := time.Now().Add(5*e2e.Deadline), make(map[string]int)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range spenders {
		all.Go(func() {
			for left := refusals; left > 0; {
				answer, after, err := askAs(s, key, prompt)
				if err != nil {
					s.T.Error(err)
					return
				}
				if answer == refused {
					left--
					// A window and its part, or until turns that hold the rest may have ended.
					if (after < 50*time.Minute || after > 64*time.Minute) && (after <= 0 || after > 5*time.Second) {
						s.T.Errorf("a limit of an hour ends after %s", after)
					}
				}
				mu.Lock()
				counts[answer]++
				mu.Unlock()
				if between != nil {
					between(answer)
				}
				if time.Now().After(end) {
					s.T.Error("the limit is not used up")
					return
				}
			}
		})
	}
	all.Wait()
	return counts
}

// askAs sends a chat and returns its status with the code of an error, and its Retry-After.
func askAs(s *e2e.Site, key, prompt string) (answer string, after time.Duration, err error) {
	response, err := s.Chat(e2e.Context(s.T), e2e.ChatBody(prompt, nil), e2e.Bearer(key))
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close()
	var body e2e.APIError
	err = json.NewDecoder(response.Body).Decode(&body)
	answer = strconv.Itoa(response.StatusCode)
	if body.Error.Code != nil {
		answer += " " + *body.Error.Code
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return answer, time.Duration(seconds) * time.Second, err
}

// call makes a request of the Responses API with a key.
func call(s *e2e.Site, method, path, key string, request e2e.Fields) (status int, text string) {
	s.T.Helper()
	var body *strings.Reader
	if body = strings.NewReader(""); request != nil {
		body = strings.NewReader(e2e.EncodeJSON(request))
	}
	response := s.Do(method, "/v1/responses"+path, body, e2e.Bearer(key))
	return response.StatusCode, s.Read(response)
}

// stored stores a response and returns its path.
func stored(s *e2e.Site, key, text string, more e2e.Fields) (path string) {
	s.T.Helper()
	status, body := call(s, http.MethodPost, "", key, e2e.Asks(text, more))
	if status != http.StatusOK {
		s.T.Fatal(status, body)
	}
	return "/" + gjson.Get(body, "id").String()
}
