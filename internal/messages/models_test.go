package messages

import (
	"net/url"
	"testing"
	"time"
)

// TestModelsPages: the pages of the list of models.
func TestModelsPages(t *testing.T) {
	created := time.Unix(0, 0)
	one := func(id string) string {
		return `{"type":"model","id":"` + id + `","display_name":"` + id + `","created_at":"1970-01-01T00:00:00Z","max_input_tokens":null,"max_tokens":null,"capabilities":null}`
	}
	for query, want := range map[string]string{
		"":                    `{"data":[` + one("a") + `,` + one("b") + `,` + one("c") + `],"has_more":false,"first_id":"a","last_id":"c"}`,
		"limit=2":             `{"data":[` + one("a") + `,` + one("b") + `],"has_more":true,"first_id":"a","last_id":"b"}`,
		"after_id=b":          `{"data":[` + one("c") + `],"has_more":false,"first_id":"c","last_id":"c"}`,
		"after_id=c":          `{"data":[],"has_more":false,"first_id":null,"last_id":null}`,
		"before_id=c&limit=1": `{"data":[` + one("b") + `],"has_more":true,"first_id":"b","last_id":"b"}`,
		"before_id=a":         `{"data":[],"has_more":false,"first_id":null,"last_id":null}`,
	} {
		values, _ := url.ParseQuery(query)
		if got, apiErr := Models([]string{"a", "b", "c"}, created, values); apiErr != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\n%s", query, apiErr, got, want)
		}
	}
	for _, limit := range []string{"0", "1001", "x"} {
		if _, apiErr := Models(nil, created, url.Values{"limit": {limit}}); apiErr == nil || apiErr.Param != "limit" {
			t.Errorf("%s: %+v", limit, apiErr)
		}
	}
	for _, param := range []string{"before_id", "after_id"} {
		if _, apiErr := Models([]string{"a"}, created, url.Values{param: {"b"}}); apiErr == nil || apiErr.Param != param {
			t.Errorf("%s of an unknown model: %+v", param, apiErr)
		}
	}
}
