package responses

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/seal"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// readContextManagement reads context_management: a list with at most one entry, of the type compaction. The
// answer then begins with a summary if the conversation has more tokens than compact_threshold.
func (r *Request) readContextManagement(v wirejson.Value) *field.Error {
	return field.Elements(v, 1, "entries", func(_ int, v wirejson.Value) *field.Error {
		var kind, threshold wirejson.Value
		if f := field.Typed(&kind, v, wirejson.Into("compact_threshold", &threshold)); f != nil {
			return f
		}
		if !kind.Is(typeCompaction) {
			return field.Invalid("must be compaction").In("type")
		}
		f := field.Limit(&r.Shortening.Above, threshold).In("compact_threshold")
		r.Shortening.Above = cmp.Or(r.Shortening.Above, prompt.FullWindow)
		return f
	})
}

func (r *Request) triggerIndex() int {
	return slices.IndexFunc(r.input, func(i inputItem) bool { return i.kind == typeTrigger })
}

// DecodeCompact reads and checks the body of POST /v1/responses/compact (CompactResponseMethodPublicBody). It
// also takes the fields of a response that clients send there. Without a model, the default one is asked.
func DecodeCompact(body []byte) (*Request, *apierror.Error) {
	return field.Body(body, newRequest(), func(r *Request, root wirejson.Value) *field.Error {
		r.compact, r.Model = true, prompt.DefaultModel
		f := r.read(root)
		r.Store, r.Stream, r.Background = false, false, false
		r.Shortening = prompt.Shortening{Summary: true, UsersStay: true}
		return f
	})
}

// compactedJSON returns the body of the answer to POST /v1/responses/compact (CompactedResponse): the user's
// messages, then the summary, and then the calls that wait for an output.
func (s *Encoder) compactedJSON() []byte {
	output := s.meta.userMessages
	for _, i := range s.items {
		output = append(output, wirejson.Append(nil, i.asJSON(true)))
	}
	output = append(output, s.meta.openCalls...)
	return wirejson.Append(nil, struct {
		ID        string            `json:"id"`
		Object    string            `json:"object"`
		CreatedAt int64             `json:"created_at"`
		Output    []json.RawMessage `json:"output"`
		Usage     usage             `json:"usage"`
	}{s.state.ID, "response.compaction", s.state.CreatedAt, output, s.state.Usage})
}

// userMessages returns the user's and the developer's messages of the whole conversation, as items with ids.
func (r *Request) userMessages() (items []json.RawMessage) {
	for i := range r.Messages {
		m := r.Messages[i]
		if m.Role == prompt.RoleUser || i >= r.Repeated && (m.Role == prompt.RoleDeveloper || m.Role == prompt.RoleSystem) {
			item := inputItem{kind: typeMessage, message: m}
			items = append(items, item.storedJSON(responseid.Item("msg", r.Suffix, "i"+strconv.Itoa(i))))
		}
	}
	return items
}

// LastSummary returns the newest summary in stored items that this server has sealed, and its index, or -1.
func LastSummary(items []json.RawMessage) (index int, sealed string) {
	for i, item := range slices.Backward(items) {
		if !bytes.HasPrefix(item, []byte(`{"id":"cmp_`)) { // quicker than reading each item
			continue
		}
		var kind, encrypted wirejson.Value
		wirejson.Value(item).Pick(wirejson.Into("type", &kind), wirejson.Into("encrypted_content", &encrypted))
		if kind.Is(typeCompaction) && encrypted.Kind() == wirejson.KindString && seal.IsSealed(encrypted.Text()) {
			return i, encrypted.Text()
		}
	}
	return -1, ""
}
