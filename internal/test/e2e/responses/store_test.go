package responses

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

func about(s *e2e.Site, method, path string, header http.Header) (status int, body string) {
	s.T.Helper()
	answer := s.Do(method, "/v1/responses/"+path, nil, header)
	return answer.StatusCode, s.Read(answer)
}

// itemList is a list of input items.
type itemList struct {
	Data    []e2e.OutputItem `json:"data"`
	FirstID string           `json:"first_id"`
	LastID  string           `json:"last_id"`
	HasMore bool             `json:"has_more"`
}

func items(s *e2e.Site, path string, header http.Header) (list itemList) {
	s.T.Helper()
	status, body := about(s, http.MethodGet, path, header)
	if err := json.Unmarshal([]byte(body), &list); err != nil || status != http.StatusOK {
		s.T.Fatal(status, body, err)
	}
	return list
}

// TestResponsesFollow checks responses that follow each other, with calls.
func TestResponsesFollow(t *testing.T) {
	s := e2e.NewSite(t, "")
	tools := []e2e.Fields{e2e.FunctionTool("localSearch")}
	e2e.EachWay(t, s, func(t *testing.T, s *e2e.Site, stream bool) {
		first := s.Respond(e2e.Asks("reason:Hm.; say:One.; tool:2 localSearch {\"query\":\"n%d\"}", e2e.Fields{
			"instructions": "Only for the first.", "tools": tools, "stream": stream, "reasoning": e2e.Fields{"summary": "auto"},
		}), nil)
		calls := first.Calls()
		if len(calls) != 2 {
			t.Fatalf("%+v", first)
		}
		half := []e2e.Fields{{"type": "function_call_output", "call_id": calls[0].CallID, "output": "A"}}
		if _, refused := s.RefuseResponse(e2e.Asks(half, e2e.Fields{"previous_response_id": first.ID, "stream": stream}), nil); *refused.Error.Param != "input" || !strings.Contains(*refused.Error.Message, calls[1].CallID) {
			t.Errorf("an output is missing: %s", e2e.EncodeJSON(refused))
		}
		outputs := append(half, e2e.Fields{"type": "function_call_output", "call_id": calls[1].CallID, "output": []e2e.Fields{{"type": "input_text", "text": "B"}}})
		second := s.Respond(e2e.Asks(outputs, e2e.Fields{"previous_response_id": first.ID, "tools": tools, "stream": stream}), nil)
		if second.Previous == nil || *second.Previous != first.ID || !strings.Contains(second.Text(), "A") {
			t.Errorf("%+v", second)
		}
		s.Respond(e2e.Asks("say:Three.", e2e.Fields{"previous_response_id": second.ID, "stream": stream, "store": false}), nil)
		request, _ := s.Model.Last()
		want := []string{
			"developer: You are a helpful assistant.",
			"user: reason:Hm.; say:One.; tool:2 localSearch {\"query\":\"n%d\"}",
			"reasoning", "assistant: One.",
			"call " + calls[0].CallID + ` localSearch({"query":"n1"})`,
			"call " + calls[1].CallID + ` localSearch({"query":"n2"})`,
			"output " + calls[0].CallID + " A", "output " + calls[1].CallID + " B",
			"assistant: " + second.Text(), "user: say:Three.",
		}
		if got := e2e.Describe(request); !slices.Equal(got, want) {
			t.Errorf("the model was given\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestResponsesKept checks that only its user can read, list and delete a response.
func TestResponsesKept(t *testing.T) {
	s := e2e.NewSite(t, "api_key sk-ann ann\napi_key sk-bob bob")
	ann, bob := e2e.Bearer("sk-ann"), e2e.Bearer("sk-bob")
	input := []e2e.Fields{e2e.Says("user", "one"), e2e.Says("assistant", "two"), {"role": "user", "content": []e2e.Fields{{"type": "input_text", "text": "say:Kept."}, {"type": "input_image", "image_url": e2e.Pixel}}}}
	_, made := s.Call(http.MethodPost, "/v1/responses", e2e.Asks(input, nil), ann)
	r := s.ParseResponse([]byte(made))
	if status, body := about(s, http.MethodGet, r.ID, ann); status != http.StatusOK || body != made {
		t.Errorf("read %d %s\nmade %s", status, body, made)
	}
	all := items(s, r.ID+"/input_items?order=asc", ann)
	if len(all.Data) != 3 || all.HasMore || all.Data[1].Content[0].Text != "two" || all.FirstID != all.Data[0].ID || all.LastID != all.Data[2].ID {
		t.Errorf("%+v", all)
	}
	if page := items(s, r.ID+"/input_items?limit=1&after="+all.LastID, ann); len(page.Data) != 1 || page.Data[0].ID != all.Data[1].ID || !page.HasMore {
		t.Errorf("the second page from the end: %+v", page)
	}
	// An item may be referenced instead of being sent again.
	next := s.Respond(e2e.Asks([]e2e.Fields{{"type": "item_reference", "id": r.Output[0].ID}, e2e.Says("user", "say:And?")}, nil), ann)
	if request, _ := s.Model.Last(); !slices.Contains(e2e.Describe(request), "assistant: Kept.") || next.Text() != "And?" {
		t.Errorf("the model was given %q", e2e.Describe(request))
	}

	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if status, body := about(s, method, r.ID, bob); status != http.StatusNotFound {
			t.Errorf("%s by another: %d %s", method, status, body)
		}
	}
	for _, path := range []string{r.ID + "/input_items", "resp_nothing", "..%2f..%2fetc%2fpasswd"} {
		if status, body := about(s, http.MethodGet, path, bob); status != http.StatusNotFound {
			t.Errorf("%s by another: %d %s", path, status, body)
		}
	}
	if status, _ := about(s, http.MethodPost, r.ID+"/cancel", bob); status != http.StatusNotFound {
		t.Errorf("cancelled by another: %d", status)
	}
	if _, refused := s.RefuseResponse(e2e.Asks("q", e2e.Fields{"previous_response_id": r.ID}), bob); *refused.Error.Code != "previous_response_not_found" {
		t.Errorf("followed by another: %s", e2e.EncodeJSON(refused))
	}
	if status, body := about(s, http.MethodGet, r.ID+"?stream=true", ann); status != http.StatusBadRequest || !strings.Contains(body, `"param":"stream"`) {
		t.Errorf("streamed: %d %s", status, body)
	}
	if status, body := about(s, http.MethodPost, r.ID+"/cancel", ann); status != http.StatusBadRequest {
		t.Errorf("cancelled at the end: %d %s", status, body)
	}
	if status, body := about(s, http.MethodPut, r.ID, ann); status != http.StatusMethodNotAllowed {
		t.Errorf("put: %d %s", status, body)
	}
	if status, body := about(s, http.MethodDelete, r.ID, ann); status != http.StatusOK || body != `{"id":"`+r.ID+`","object":"response","deleted":true}` {
		t.Errorf("deleted: %d %s", status, body)
	}
	if status, _ := about(s, http.MethodGet, r.ID, ann); status != http.StatusNotFound {
		t.Errorf("read once more: %d", status)
	}
	if gone := s.Respond(e2e.Asks("say:x", e2e.Fields{"store": false}), ann); gone.Store {
		t.Error("store is true")
	} else if status, _ := about(s, http.MethodGet, gone.ID, ann); status != http.StatusNotFound {
		t.Errorf("not to be kept, but: %d", status)
	}
}

// TestResponsesStores: responses outlive reloads in each store, restarts on a disk and in Redis.
func TestResponsesStores(t *testing.T) {
	server := redisserver.Start(t)
	s := e2e.NewSite(t, "")
	for _, c := range []struct {
		name, store    string
		kept, survives bool
	}{
		{"memory", "store memory {\nsize 1MiB\nage 1h\n}", true, false},
		{"disk", "store disk " + t.TempDir() + " {\nage 1h\n}", true, true},
		{"redis", "store redis " + server.URL("3"), true, true},
		{"off", "store off", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s.At(t)
			s.Load(s.Caddyfile(c.store))
			s.WaitReady()
			r := s.Respond(e2e.Asks("say:Kept <over> it.", nil), nil)
			if r.Store != c.kept {
				t.Error("store is", r.Store)
			}
			s.Load(s.Caddyfile(c.store + "\nkeepalive 9s"))
			s.WaitReady()
			status, body := about(s, http.MethodGet, r.ID, nil)
			if (status == http.StatusOK) != c.kept {
				t.Fatal(status, body)
			}
			if !c.kept {
				return
			}
			if again := s.ParseResponse([]byte(body)); again.Text() != "Kept <over> it." {
				t.Errorf("%q", again.Text())
			}
			checkReadAtItsEnd(s)
			if next := s.Respond(e2e.Asks("say:More.", e2e.Fields{"previous_response_id": r.ID}), nil); next.Text() != "More." {
				t.Errorf("%+v", next)
			}
			if request, _ := s.Model.Last(); !slices.Contains(e2e.Describe(request), "assistant: Kept <over> it.") {
				t.Errorf("the model was given %q", e2e.Describe(request))
			}
			must.OK(t, caddy.Stop())
			s.Load(s.Caddyfile(c.store))
			s.WaitReady()
			if status, body := about(s, http.MethodGet, r.ID, nil); (status == http.StatusOK) != c.survives {
				t.Errorf("after a restart: %d %s", status, body)
			}
		})
	}
}

// checkReadAtItsEnd: a background response is completed for a client that read so in its stream.
func checkReadAtItsEnd(s *e2e.Site) {
	stream := s.Do(http.MethodPost, "/v1/responses", strings.NewReader(e2e.EncodeJSON(e2e.Asks("chunk=3; say:One two three.", e2e.Fields{"stream": true, "background": true}))), nil)
	defer stream.Body.Close()
	id, last := "", ""
	for lines := bufio.NewScanner(stream.Body); last != "event: response.completed" && lines.Scan(); {
		if last = lines.Text(); id == "" {
			_, rest, _ := strings.Cut(last, `"id":"`)
			id, _, _ = strings.Cut(rest, `"`)
		}
	}
	status, body := about(s, http.MethodGet, id, nil)
	if made := s.ParseResponse([]byte(body)); status != http.StatusOK || made.Status != "completed" || made.Text() != "One two three." {
		s.T.Errorf("at its end, after %q, it is %s", last, body)
	}
}

// begin starts a stream that hangs after its first text, and returns its id.
func begin(s *e2e.Site, request e2e.Fields, header http.Header) (stream *http.Response, id string) {
	s.T.Helper()
	stream = s.Do(http.MethodPost, "/v1/responses", strings.NewReader(e2e.EncodeJSON(e2e.Asks("say:It begins; hang", request))), header)
	_, rest, _ := strings.Cut(e2e.ReadUntil(s.T, stream.Body, "response.output_text.delta"), `"id":"`)
	id, _, _ = strings.Cut(rest, `"`)
	return stream, id
}

// TestResponsesRunning reads and deletes a response in progress.
func TestResponsesRunning(t *testing.T) {
	s := e2e.NewSite(t, "")
	stream, id := begin(s, e2e.Fields{"stream": true}, nil)
	status, body := about(s, http.MethodGet, id, nil)
	if r := s.ParseResponse([]byte(body)); status != http.StatusOK || r.Status != "in_progress" || r.ID != id {
		t.Errorf("read %d %s", status, body)
	}
	if list := items(s, id+"/input_items", nil); len(list.Data) != 1 || list.Data[0].Content[0].Text != "say:It begins; hang" {
		t.Errorf("%+v", list)
	}
	if _, refused := s.RefuseResponse(e2e.Asks("q", e2e.Fields{"previous_response_id": id}), nil); *refused.Error.Code != "previous_response_not_found" {
		t.Errorf("followed before its end: %s", e2e.EncodeJSON(refused))
	}
	if status, body := about(s, http.MethodDelete, id, nil); status != http.StatusOK {
		t.Errorf("deleted: %d %s", status, body)
	}
	if end := s.Read(stream); !strings.Contains(end, `"status":"cancelled"`) {
		t.Errorf("the stream ends with %s", end)
	}
	if status, body := about(s, http.MethodGet, id, nil); status != http.StatusNotFound {
		t.Errorf("read after that: %d %s", status, body)
	}

	stream, id = begin(s, e2e.Fields{"stream": true, "store": false}, nil)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if status, body := about(s, method, id, nil); status != http.StatusNotFound {
			t.Errorf("not to be kept, %s: %d %s", method, status, body)
		}
	}
	if status, body := about(s, http.MethodPost, id+"/cancel", nil); status != http.StatusOK {
		t.Errorf("cancelled: %d %s", status, body)
	}
	s.Read(stream)
}

// TestResponsesLost checks that the turn of a client that leaves ends, and that its
// response is stored and can be followed.
func TestResponsesLost(t *testing.T) {
	s := e2e.NewSite(t, "")
	stream, id := begin(s, e2e.Fields{"stream": true}, nil)
	must.OK(t, stream.Body.Close())
	s.WaitOpen(0)
	var r *e2e.Response
	e2e.WaitFor(t, "the response to be kept", func() bool {
		status, body := about(s, http.MethodGet, id, nil)
		if status != http.StatusOK {
			t.Fatal(status, body)
		}
		r = s.ParseResponse([]byte(body))
		return r.Status != "in_progress"
	})
	if r.Status != "cancelled" || !strings.HasPrefix("It begins", r.Text()) || r.Text() == "" || r.Output[0].Status != "incomplete" {
		t.Errorf("%+v", r)
	}
	if status, _ := about(s, http.MethodPost, id+"/cancel", nil); status != http.StatusBadRequest {
		t.Errorf("cancelled afterwards: %d", status)
	}
	if next := s.Respond(e2e.Asks("say:Again.", e2e.Fields{"previous_response_id": id}), nil); next.Text() != "Again." {
		t.Errorf("%+v", next)
	}
	if request, _ := s.Model.Last(); !slices.Contains(e2e.Describe(request), "assistant: "+r.Text()) {
		t.Errorf("the model was given %q", e2e.Describe(request))
	}
}

// TestResponsesChain checks a long chain, its concurrent branches, and one with a deleted response.
func TestResponsesChain(t *testing.T) {
	s := e2e.NewSite(t, "")
	ids := []string{""}
	follow := func(s *e2e.Site, id, text string) *e2e.Response {
		request := e2e.Asks("say:"+text, nil)
		if id != "" {
			request["previous_response_id"] = id
		}
		return s.Respond(request, nil)
	}
	const links = 30
	for i := range links {
		ids = append(ids, follow(s, ids[i], "n"+strconv.Itoa(i)).ID)
	}
	request, _ := s.Model.Last()
	if given := e2e.Describe(request); len(given) != 2*links || given[links] != "assistant: n"+strconv.Itoa(links/2-1) {
		t.Errorf("the model was given %d items: %q", len(given), given)
	}
	t.Run("branches", func(t *testing.T) {
		for i := range 4 {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				if r := follow(s.At(t), ids[links], "branch"+strconv.Itoa(i)); r.Text() != "branch"+strconv.Itoa(i) || *r.Previous != ids[links] {
					t.Errorf("%+v", r)
				}
			})
		}
	})
	if status, body := about(s, http.MethodDelete, ids[5], nil); status != http.StatusOK {
		t.Fatal(status, body)
	}
	_, refused := s.RefuseResponse(e2e.Asks("q", e2e.Fields{"previous_response_id": ids[links]}), nil)
	if *refused.Error.Param != "previous_response_id" || !strings.Contains(*refused.Error.Message, ids[5]) {
		t.Errorf("%s", e2e.EncodeJSON(refused))
	}
	if r := follow(s, ids[4], "before"); r.Text() != "before" {
		t.Errorf("%+v", r)
	}
}

// TestResponsesReferences checks references to others' items, unknown items, and too many bytes.
func TestResponsesReferences(t *testing.T) {
	s := e2e.NewSite(t, "max_body 100KB\napi_key sk-ann ann\napi_key sk-bob bob")
	ann, bob := e2e.Bearer("sk-ann"), e2e.Bearer("sk-bob")
	r := s.Respond(e2e.Asks([]e2e.Fields{e2e.Says("assistant", strings.Repeat("word ", 2000)), e2e.Says("user", "say:Kept.")}, nil), ann)
	large := items(s, r.ID+"/input_items?order=asc", ann).FirstID
	for _, c := range []struct {
		name   string
		header http.Header
		ids    []string
		param  string
		code   string
	}{
		{"another's", bob, []string{r.Output[0].ID}, "input[0].id", "not_found"},
		{"none", ann, []string{r.Output[0].ID, strings.Replace(r.Output[0].ID, "_0", "_7", 1)}, "input[1].id", "not_found"},
		{"odd", ann, []string{"msg_../../x_0"}, "input[0].id", "not_found"},
		{"too many", ann, slices.Repeat([]string{large}, 11), "input", "context_length_exceeded"},
	} {
		var items []e2e.Fields
		for _, id := range c.ids {
			items = append(items, e2e.Fields{"type": "item_reference", "id": id})
		}
		answer, refused := s.RefuseResponse(e2e.Asks(items, nil), c.header)
		if answer.StatusCode != http.StatusBadRequest || *refused.Error.Param != c.param || *refused.Error.Code != c.code {
			t.Errorf("%s: %s %s", c.name, answer.Status, e2e.EncodeJSON(refused))
		}
	}
	thought := s.Respond(e2e.Asks("reason:Hm.; say:So.", e2e.Fields{"reasoning": e2e.Fields{"summary": "auto"}}), ann)
	items := []e2e.Fields{
		{"type": "item_reference", "id": thought.Output[0].ID}, {"type": "item_reference", "id": thought.Output[1].ID},
		{"id": large}, {"type": "item_reference", "id": large}, e2e.Says("user", "say:Fine."),
	}
	if again := s.Respond(e2e.Asks(items, nil), ann); again.Text() != "Fine." {
		t.Errorf("%+v", again)
	}
	request, _ := s.Model.Last()
	if given := e2e.Describe(request); len(given) != 6 || given[1] != "reasoning" || given[2] != "assistant: So." || given[3] != given[4] {
		t.Errorf("the model was given %.200q", given)
	}
}

// TestBackgroundResumed checks that a response in the background continues without its
// client, who can read the rest of the stream later, even after a reload.
func TestBackgroundResumed(t *testing.T) {
	s := e2e.NewSite(t, "")
	stream, id := begin(s, e2e.Fields{"stream": true, "background": true}, nil)
	must.OK(t, stream.Body.Close())
	s.Load(s.Caddyfile("keepalive 9s"))
	s.WaitReady()
	resumed := s.Do(http.MethodGet, "/v1/responses/"+id+"?stream=true&starting_after=1", nil, nil)
	s.WaitOpen(1) // the model continues
	if status, body := about(s, http.MethodPost, id+"/cancel", nil); status != http.StatusOK || s.ParseResponse([]byte(body)).Status != "cancelled" {
		t.Fatal(status, body)
	}
	rest := s.Read(resumed)
	if !strings.Contains(rest, `"sequence_number":2,`) || strings.Contains(rest, "event: response.created") || !strings.Contains(rest, "event: response.failed") {
		t.Errorf("the rest is %s", rest)
	}
	whole := s.Read(s.Do(http.MethodGet, "/v1/responses/"+id+"?stream=true", nil, nil))
	if !strings.HasSuffix(whole, rest) || !strings.HasPrefix(whole, "event: response.created") {
		t.Errorf("the whole is %s", whole)
	}
	if _, err := s.Model.Wait(e2e.Context(t), func(now scriptedmodel.Stats) bool { return now.Open == 0 }); err != nil {
		t.Error("the model goes on:", err)
	}
}

// TestNotStored kills Redis while clients ask: a response that says that it is stored can be read, the
// others say that they are not, and the operator sees it. TestRefusesWrites of internal/store has the
// other reasons why Redis does not store.
func TestNotStored(t *testing.T) {
	server := redisserver.Start(t)
	s := e2e.NewUnstarted(t)
	admin := s.Node()
	options := "store redis " + server.URL("") + "?read_timeout=500ms&dial_timeout=500ms"
	r := s.RunFile(strings.Replace(s.WithMetrics(options), "admin off", "admin "+admin.Addr, 1))
	r.WaitUp()
	// ask asks for a response and returns what it says.
	ask := func(stream, stored bool) *e2e.Response {
		t.Helper()
		answer, last := s.Call(http.MethodPost, "/v1/responses", e2e.Asks("say:ok", e2e.Fields{"stream": stream}), nil)
		says := answer.Header.Get("X-Codex-Not-Stored")
		if stream {
			_, data, _ := strings.Cut(last[strings.LastIndex(last, "event: "):], "data: ")
			last = gjson.Get(data, "response").Raw
		}
		response := s.ParseResponse([]byte(last))
		if response.Store != stored || (says == "response") != (!stored && !stream) {
			t.Errorf("streamed %t: the header has %q, the body %t", stream, says, response.Store)
		}
		return response
	}
	kept := []*e2e.Response{ask(false, true), ask(true, true)}
	server.Kill()
	for range 2 {
		ask(false, false)
		ask(true, false)
	}
	e2e.WaitFor(t, "/readyz to say it", func() bool {
		status, body := s.Get("/readyz")
		return status == http.StatusOK && strings.Contains(body, `"store":"unavailable"`)
	})
	if _, body := admin.Get("/codex/status"); !strings.Contains(body, `"stores":{"redis":{"state":"fails","unsettled":0}}`) {
		t.Error(body)
	}
	samples := s.Samples()
	if samples[`codex_store_state{state="fails",store="redis"}`] != 1 || samples["codex_answers_not_stored_total"] != 4 ||
		samples[`codex_store_failures_total{operation="put"}`] < 4 || samples[`codex_store_duration_seconds_count{operation="put"}`] < 6 {
		t.Errorf("%v", samples)
	}
	server.Restart()
	e2e.WaitFor(t, "the end of the outage", func() bool { return s.Samples()[`codex_store_state{state="works",store="redis"}`] == 1 })
	for _, response := range kept {
		if status, body := about(s, http.MethodGet, response.ID, nil); status != http.StatusOK {
			t.Error(status, body)
		}
	}
}
