package apierror

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestErrorBody(t *testing.T) {
	for want, e := range map[string]*Error{
		`{"error":{"message":"","type":null,"param":null,"code":null}}`:                               {},
		`{"error":{"message":"a \"b\"\n\u0000","type":"t","param":"messages[0].content","code":"c"}}`: {Message: "a \"b\"\n\x00", Type: "t", Param: "messages[0].content", Code: "c"},
		`{"error":{"message":"\ufffd","type":"t","param":null,"code":"\ufffd"}}`:                      {Message: "\xff", Type: "t", Code: "\xfe"},
	} {
		got := e.Body()
		if string(got) != want {
			t.Errorf("body %s, want %s", got, want)
		}
		if !json.Valid(got) {
			t.Errorf("not JSON: %s", got)
		}
	}
}

func TestErrorText(t *testing.T) {
	if got := (&Error{Status: 400, Message: "bad"}).Error(); got != "bad (400)" {
		t.Error(got)
	}
	if got := (&Error{Status: 404, Message: "none", Code: "model_not_found"}).Error(); got != "none (404 model_not_found)" {
		t.Error(got)
	}
}

func TestErrorHeaders(t *testing.T) {
	yes := true
	for name, c := range map[string]struct {
		err  *Error
		want map[string]string // empty: the header is not there
	}{
		"plain":            {&Error{}, map[string]string{"Content-Type": "application/json", "Retry-After": "", "Retry-After-Ms": "", "X-Should-Retry": "", "Allow": "", "Www-Authenticate": ""}},
		"part of a second": {&Error{RetryAfter: 11 * time.Millisecond}, map[string]string{"Retry-After": "1", "Retry-After-Ms": "11"}},
		"part of a milli":  {&Error{RetryAfter: time.Microsecond}, map[string]string{"Retry-After": "1", "Retry-After-Ms": "1"}},
		"seconds":          {&Error{RetryAfter: 2500 * time.Millisecond}, map[string]string{"Retry-After": "3", "Retry-After-Ms": "2500"}},
		"minute":           {&Error{RetryAfter: time.Minute}, map[string]string{"Retry-After": "60", "Retry-After-Ms": "60000"}},
		"no use":           {&Error{ShouldRetry: new(bool)}, map[string]string{"X-Should-Retry": "false"}},
		"no use, later":    {&Error{RetryAfter: time.Minute, ShouldRetry: new(bool)}, map[string]string{"Retry-After": "", "Retry-After-Ms": "", "X-Should-Retry": "false"}},
		"of use":           {&Error{RetryAfter: time.Second, ShouldRetry: &yes}, map[string]string{"Retry-After": "1", "X-Should-Retry": "true"}},
		"unauthorized":     {Unauthorized(), map[string]string{"Www-Authenticate": "Bearer"}},
		"method":           {MethodNotAllowed("PUT", "/v1/models", "GET, HEAD"), map[string]string{"Allow": "GET, HEAD"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			c.err.SetHeaders(h)
			for key, want := range c.want {
				if got := h.Get(key); got != want {
					t.Errorf("%s: %q, want %q", key, got, want)
				}
			}
		})
	}
}

func TestErrorRespond(t *testing.T) {
	w := httptest.NewRecorder()
	if err := QueueFull().Respond(w, httptest.NewRequest(http.MethodPost, "/", nil)); err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || w.Body.String() != string(QueueFull().Body()) {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

// TestMessages: the arguments of each error are those of its message.
func TestMessages(t *testing.T) {
	for _, e := range []*Error{
		AnswerTooLarge(1), PayloadTooLarge(1), UnsupportedEncoding("br"), CorruptBody("gzip"), BodyTimeout(1, time.Second),
		QueueTimeout(time.Second), TooManyChoices(5, 4), KeyConcurrency(1), WindowExceeded(300_000, 272_000), KeyExpired(time.Time{}),
		OriginNotAllowed("o"), HostNotAllowed("h"), ModelNotFound("m"), NotFound("GET", "/v1/x"), NotTheAPI("GET", "/x", "b"),
		ResponseNotFound("r"), BackgroundTimeout(time.Second), CancelPending("r"), NotCancellable("r"), InConversation("r"),
		PreviousNotFound("r", "s"), ConversationNotFound("c"), ConversationItemNotFound("c", "i"), NoStore("p"), NoEvents("p", ""),
		NoSuchAppServer("a"), SignInFailed("r"), ResetFailed("r"),
	} {
		if strings.Contains(e.Message, "%!") {
			t.Error(e)
		}
	}
	if e := ConversationItemNotFound("c", "i"); e.Message != `There is no item with the id "i" in the conversation "c".` {
		t.Error(e)
	}
	if e := TooManyChoices(5, 4); e.Message != "n must be at most 4 here, not 5: that many turns may run at once." {
		t.Error(e)
	}
}

func TestLocalErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err    *Error
		status int
		param  string
		code   Code
	}{
		"invalid":      {InvalidRequest("x-proxy-output-mode", "must be openai-json or obsidian-xml"), 400, "x-proxy-output-mode", ""},
		"queue":        {QueueFull(), 429, "", "codex_queue_full"},
		"queue wait":   {QueueTimeout(10 * time.Second), 503, "", "codex_queue_timeout"},
		"answer":       {AnswerMemory(), 503, "", "codex_answer_memory"},
		"large answer": {AnswerTooLarge(1 << 20), 502, "", "answer_too_large"},
		"body":         {BodyMemory(), 503, "", "codex_body_memory"},
		"slow body":    {BodyTimeout(1024, time.Minute), 408, "", "request_timeout"},
		"early data":   {TooEarly(), 425, "", "too_early"},
		"choices":      {TooManyChoices(65, 64), 400, "n", ""},
		"too large":    {PayloadTooLarge(1 << 20), 413, "", "request_too_large"},
		"unauthorized": {Unauthorized(), 401, "", "invalid_api_key"},
		"admin key":    {AdminKeyWrong(), 401, "", "invalid_api_key"},
		"app-server":   {NoSuchAppServer("a"), 404, "app_server", "not_found"},
		"signing in":   {SignInUnderWay(), 409, "", "sign_in_under_way"},
		"no code":      {SignInFailed("r"), 502, "", "sign_in_failed"},
		"no reset":     {ResetFailed("r"), 502, "", "reset_failed"},
		"not found":    {NotFound("GET", "/v1/x"), 404, "", "unknown_url"},
		"no model":     {ModelNotFound("m"), 404, "model", "model_not_found"},
		"no image":     {InvalidImageURL("messages[0].content[1].image_url.url", "x"), 400, "messages[0].content[1].image_url.url", "invalid_image_url"},
		"method":       {MethodNotAllowed("PUT", "/v1/models", "GET"), 405, "", "method_not_allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.err.Status != c.status || c.err.Param != c.param || c.err.Code != c.code || c.err.Message == "" || c.err.Type == "" ||
				c.code != "" && c.code.Label() != string(c.code) {
				t.Errorf("%+v", c.err)
			}
		})
	}
}

// TestErrorsAreShort: what an error quotes of a request is bounded.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("<", 1<<20)
	for _, e := range []*Error{
		OriginNotAllowed(long), NotFound(long, long), ModelNotFound(long), MethodNotAllowed(long, long, "GET"),
		ResponseNotFound(long), PreviousNotFound(long, long+"x"), NotCancellable(long),
	} {
		if body := e.Body(); len(body) > 2000 {
			t.Errorf("%d bytes: %.200s", len(body), body)
		}
	}
}

// TestWithModels checks that an error names models, and not too many of them.
func TestWithModels(t *testing.T) {
	many := slices.Repeat([]string{strings.Repeat("m", 1000)}, 1000)
	for want, names := range map[string][]string{
		`The model "x" does not exist here, or your key may not use it. GET /v1/models lists those that do.`:                                  nil,
		`The model "x" does not exist here, or your key may not use it. GET /v1/models lists those that do. The models here are: a, default.`: {"a", "default"},
		`The model "x" does not exist here, or your key may not use it. GET /v1/models lists those that do. The models here are: ` + strings.Repeat(strings.Repeat("m", 64)+", ", 11) +
			strings.Repeat("m", 64) + " and others.": many,
	} {
		if got := ModelNotFound("x").WithModels(names).Message; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestLabels(t *testing.T) {
	for code, want := range map[Code]string{
		CodeQueueFull: "codex_queue_full", "": LabelInvalid, "made_up_by_a_provider": LabelOther, "other": LabelOther,
	} {
		if got := code.Label(); got != want {
			t.Errorf("%q is labelled %q, want %q", code, got, want)
		}
	}
}
