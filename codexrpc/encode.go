package codexrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// This file encodes the calls that every turn needs. encoding/json would copy a long input several times,
// and for the settings of a thread alone it would double the time of a short turn.

// AppendJSON appends the parameters as JSON. Members of maps are sorted by name.
func (p *ThreadStartParams) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, '{')
	for _, member := range []struct{ name, value string }{
		{"model", p.Model}, {"serviceTier", p.ServiceTier},
		{"developerInstructions", p.DeveloperInstructions}, {"cwd", p.Cwd},
		{"approvalPolicy", p.ApprovalPolicy}, {"sandbox", p.Sandbox},
	} {
		if member.value != "" {
			dst = append(append(append(dst, '"'), member.name...), `":`...)
			dst = append(wirejson.AppendString(dst, member.value), ',')
		}
	}
	if p.BaseInstructions != nil {
		dst = append(wirejson.AppendString(append(dst, `"baseInstructions":`...), *p.BaseInstructions), ',')
	}
	dst = strconv.AppendBool(append(dst, `"ephemeral":`...), p.Ephemeral)
	dst = strconv.AppendBool(append(dst, `,"experimentalRawEvents":`...), p.ExperimentalRawEvents)
	dst = append(dst, `,"environments":`...)
	if p.Environments == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, "[]"...) // not omitted: an empty list means no access to the host
	}
	var err error
	if !p.Config.IsZero() {
		if dst, err = p.Config.appendJSON(append(dst, `,"config":`...)); err != nil {
			return nil, err
		}
	}
	if len(p.DynamicTools) > 0 {
		if dst, err = appendValue(append(dst, `,"dynamicTools":`...), p.DynamicTools); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func (p *TurnStartParams) appendJSON(dst []byte) ([]byte, error) {
	dst = wirejson.AppendString(append(dst, `{"threadId":`...), p.ThreadID)
	dst = append(dst, `,"input":[`...)
	for i, part := range p.Input {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = part.appendJSON(dst)
	}
	dst = append(dst, ']')
	if p.Effort != "" {
		dst = wirejson.AppendString(append(dst, `,"effort":`...), p.Effort)
	}
	if len(p.OutputSchema) > 0 {
		var err error
		if dst, err = appendValue(append(dst, `,"outputSchema":`...), p.OutputSchema); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// size is about how many bytes the parameters take as JSON.
func (p *TurnStartParams) size() int {
	size := len(p.OutputSchema)
	for _, part := range p.Input {
		size += len(part.Text) + len(part.URL)
		for _, escaped := range []string{`"`, `\`, "\n"} {
			size += strings.Count(part.Text, escaped)
		}
	}
	return size
}

// MarshalJSON encodes the text or the image, as Type says.
func (u UserInput) MarshalJSON() ([]byte, error) { return u.appendJSON(nil), nil }

// MarshalJSON returns c as it is, since c is already JSON.
func (c Constant) MarshalJSON() ([]byte, error) { return []byte(c), nil }

func (u UserInput) appendJSON(dst []byte) []byte {
	if u.Type != "image" {
		dst = wirejson.AppendString(append(dst, `{"type":"text","text":`...), u.Text)
		return append(dst, `,"text_elements":[]}`...)
	}
	dst = wirejson.AppendString(append(dst, `{"type":"image","url":`...), u.URL)
	if u.Detail != "" {
		dst = wirejson.AppendString(append(dst, `,"detail":`...), u.Detail)
	}
	return append(dst, '}')
}

// appendValue appends the same JSON as encode, but is faster for common types.
func appendValue(dst []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case bool:
		return strconv.AppendBool(dst, v), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case string:
		return wirejson.AppendString(dst, v), nil
	case Constant:
		return append(dst, v...), nil
	case map[string]any:
		if v != nil { // encode makes a nil map null
			return appendMap(dst, v)
		}
	}
	encoded, err := encode(value)
	return append(dst, encoded...), err
}

// MarshalJSON returns the settings as an object.
func (c Config) MarshalJSON() ([]byte, error) { return c.appendJSON(nil) }

func (c Config) appendJSON(dst []byte) ([]byte, error) {
	return appendMap(dst, c.Own, c.Fixed, c.Place)
}

// appendMap appends a JSON object: the fixed members as they are, then members, sorted by name.
func appendMap(dst []byte, members map[string]any, fixed ...Constant) (_ []byte, err error) {
	separator := byte('{')
	for _, f := range fixed {
		if f != "" {
			dst, separator = append(append(dst, separator), f...), ','
		}
	}
	names := make([]string, 0, 8) // enough for the settings of a thread
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		dst = append(wirejson.AppendString(append(dst, separator), name), ':')
		if dst, err = appendValue(dst, members[name]); err != nil {
			return nil, err
		}
		separator = ','
	}
	if separator == '{' { // there are no members
		dst = append(dst, '{')
	}
	return append(dst, '}'), nil
}

// encodeCall encodes a call as one line, usually with spare capacity for a newline.
func encodeCall(id int64, method string, params any) ([]byte, error) {
	var line []byte
	var err error
	switch p := params.(type) {
	case injectParams:
		line, err = p.appendJSON(callHead(id, method, p.size()))
	case *ThreadStartParams:
		line, err = p.AppendJSON(callHead(id, method, 2<<10))
	case *TurnStartParams:
		line, err = p.appendJSON(callHead(id, method, p.size()))
	case *Thread: // the only parameter of the call is the id of the thread
		line = append(wirejson.AppendString(append(callHead(id, method, 0), `{"threadId":`...), p.id), '}')
	case Constant:
		line = append(callHead(id, method, len(p)), p...)
	default:
		line, err = appendValue(callHead(id, method, 0), params)
	}
	return append(line, '}'), err
}

// callHead returns the beginning of a call, with room for parameters of size bytes.
func callHead(id int64, method string, size int) []byte {
	const overhead = 256 // for the other members of the call, and the JSON around the texts
	line := strconv.AppendInt(append(make([]byte, 0, size+overhead), `{"id":`...), id, 10)
	line = append(line, `,"method":`...)
	return append(wirejson.AppendString(line, method), `,"params":`...)
}

// injectParams are the parameters of thread/inject_items. The items can be tens of megabytes long.
type injectParams struct {
	threadID string
	items    []json.RawMessage
}

func (p injectParams) appendJSON(dst []byte) ([]byte, error) {
	dst = append(wirejson.AppendString(append(dst, `{"threadId":`...), p.threadID), `,"items":[`...)
	for i, item := range p.items {
		if i > 0 {
			dst = append(dst, ',')
		}
		// Invalid JSON would break the stream for all other callers.
		if !wirejson.ValidWithin(maxNesting, item) {
			return nil, fmt.Errorf("item %d: %w", i, errGarbage)
		}
		if bytes.IndexByte(item, '\n') >= 0 || bytes.IndexByte(item, '\r') >= 0 {
			var oneLine bytes.Buffer
			_ = json.Compact(&oneLine, item) // cannot fail: item is valid JSON
			item = oneLine.Bytes()
		}
		dst = append(dst, item...)
	}
	return append(dst, "]}"...), nil
}

func (p injectParams) size() int {
	size := len(p.items)
	for _, item := range p.items {
		size += len(item)
	}
	return size
}
