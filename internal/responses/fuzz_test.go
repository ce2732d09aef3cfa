package responses

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

func checkRefusal(t *testing.T, apiErr *apierror.Error) {
	t.Helper()
	if apiErr.Status != http.StatusBadRequest || apiErr.Type != apierror.TypeInvalidRequest || apiErr.Message == "" || apiErr.Code == codeHosted || !json.Valid(apiErr.Body()) {
		t.Fatalf("refused by %+v", apiErr)
	}
}

// FuzzConversation sends any body of a new conversation. What is kept of it can be sent
// again, and is the same then.
func FuzzConversation(f *testing.F) {
	f.Add([]byte(`{"items":[{"role":"user","content":"q"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}],"metadata":{"a":"b"}}`))
	f.Add([]byte(`{"items":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"\ud83d"}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		given := string(body)
		r, apiErr := DecodeConversation(body, "")
		if apiErr != nil {
			checkRefusal(t, apiErr)
			return
		}
		items := r.Items("suffix")
		ids := map[string]bool{}
		for _, item := range items {
			ids[objects.ItemID(item)] = true
		}
		if len(ids) != len(items) || ids[""] || !json.Valid(r.Object("conv", 1)) || string(body) != given {
			t.Fatalf("%s: the items %s", body, items)
		}
		if len(items) == 0 {
			return
		}
		stored := []byte(`{"items":[`)
		for i, item := range items {
			stored = append(append(stored, ","[:min(i, 1)]...), item...)
		}
		stored = append(stored, "]}"...)
		again, apiErr := DecodeConversation(stored, "items")
		if apiErr != nil {
			t.Fatalf("%s became %s: %+v", body, stored, apiErr)
		}
		if repeated := again.Items("suffix"); !reflect.DeepEqual(repeated, items) {
			t.Fatalf("%s became %s", items, repeated)
		}
	})
}

// FuzzWebSearchItems gives any action of a search and any list of annotations, which come
// from the provider. A stream must add up to the whole answer.
func FuzzWebSearchItems(f *testing.F) {
	f.Add(`{"type":"search","query":"q"}`, `[{"type":"url_citation","url":"https://a.example/","title":"A","start_index":0,"end_index":1}]`)
	f.Add(`{"type":"other"}`, `[7,{}]`)
	f.Fuzz(func(t *testing.T, action, annotations string) {
		var list []json.RawMessage
		if json.Unmarshal([]byte(annotations), &list) != nil || list == nil || action != "" && !json.Valid([]byte(action)) {
			return // codexrpc passes on lists and JSON only
		}
		annotations = strings.TrimSpace(annotations)
		meta := metaOf(t, withMember(`"tools":[{"type":"web_search"}]`))
		outs := []turn.Output{
			{Kind: turn.OutputSearchStart, ID: "ws_1"}, {Kind: turn.OutputSearchEnd, ID: "ws_1", Text: action},
			{Kind: turn.OutputText, Text: "ab"}, {Kind: turn.OutputAnnotations, ID: "m", Text: annotations},
			{Kind: turn.OutputFinish, End: &turn.End{Finish: turn.FinishStop}},
		}
		var events []readEvent
		s := newStream(meta, func(_ string, data []byte) error {
			var e readEvent
			if err := json.Unmarshal(data, &e); err != nil {
				t.Fatalf("%s\n%v", data, err)
			}
			events = append(events, e)
			return nil
		})
		must.OK(t, s.Open())
		for _, out := range outs {
			must.OK(t, s.Write(0, out))
		}
		whole := bodyOfResponse(meta, outs).JSON()
		if last := events[len(events)-1]; !s.Done() || string(last.Response) != string(whole) || !json.Valid(whole) {
			t.Fatalf("streamed %s\nwhole    %s", last.Response, whole)
		}
		checkDeltas(t, events, whole)
	})
}
