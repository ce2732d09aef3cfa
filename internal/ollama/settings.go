package ollama

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// readStream reads stream. If it is absent or null, it counts as true.
func (r *Request) readStream(v wirejson.Value) *field.Error {
	r.Stream = string(v) != "false"
	return field.Optional(wirejson.KindBool, v)
}

// readFormat reads the format: json, or a schema. The provider enforces a strict schema. json, and a schema
// that is not strict, become an instruction to the model.
func (r *Request) readFormat(v wirejson.Value) *field.Error {
	r.Format = prompt.Format{}
	switch {
	case !v.Given() || v.Is(""):
		return nil
	case v.Is("json"):
		return r.Format.Read(wirejson.Value(`{"type":"json_object"}`), false)
	case v.Kind() == wirejson.KindObject:
		return r.Format.ReadSchema(v)
	}
	return field.Invalid(`must be "json" or a JSON Schema`)
}

// readThink reads think: true or false (whether the answer has the reasoning), or an effort.
func (r *Request) readThink(v wirejson.Value) *field.Error {
	r.think = ""
	switch v.Kind() {
	case wirejson.KindAbsent, wirejson.KindNull:
		return nil
	case wirejson.KindBool:
		r.think = string(v)
		return nil
	case wirejson.KindString:
		if r.think = v.Text(); slices.Contains([]string{"low", "medium", "high", "max"}, r.think) {
			return nil
		}
	}
	return field.Invalid("must be true, false, low, medium, high or max")
}

// ignoredOptions are the options that change the answer in Ollama but have no effect here.
var ignoredOptions = []string{"temperature", "top_p", "top_k", "min_p", "seed", "repeat_penalty", "presence_penalty", "frequency_penalty"}

// readOptions reads the field options. The options num_predict (a limit of tokens) and stop have an effect.
// The options in ignoredOptions are recorded as ignored. All others are skipped.
func (r *Request) readOptions(v wirejson.Value) *field.Error {
	if f := field.Optional(wirejson.KindObject, v); f != nil || !v.Given() {
		return f
	}
	for name, v := range v.Members() {
		var f *field.Error
		switch option := string(name); {
		case option == "num_predict":
			f = r.readLimit(v)
		case option == "stop":
			f = r.readStop(v)
		case v.Given() && slices.Contains(ignoredOptions, option):
			r.Ignore("options." + option)
		}
		if f != nil {
			return f.In(string(name))
		}
	}
	return nil
}

// readLimit reads a limit of tokens. A number below 1 means no limit.
func (r *Request) readLimit(v wirejson.Value) *field.Error {
	if v.Kind() == wirejson.KindNumber {
		if n, err := strconv.ParseFloat(string(v), 64); err == nil && n < 1 {
			return nil
		}
	}
	return field.Limit(&r.MaxTokens, v)
}

// readStop reads one or several stop sequences. Ollama does not limit their number. Here, only the
// first [prompt.MaxStops] of them are used; if there are more, options.stop is recorded as ignored.
func (r *Request) readStop(v wirejson.Value) *field.Error {
	r.StopSequences = nil
	add := func(i int, v wirejson.Value) *field.Error {
		switch {
		case v.Is(""):
			return nil
		case len(r.StopSequences) == prompt.MaxStops:
			r.Ignore("options.stop")
			return nil
		}
		return r.AddStop(i, v)
	}
	if v.Kind() == wirejson.KindString {
		return add(0, v)
	}
	return field.Elements(v, prompt.MaxItems, prompt.AllItems, add)
}

// readKeepAlive reads keep_alive, a number of seconds or a duration. It has only one effect: if it is 0,
// the answer to a request without a conversation says that the model is unloaded.
func (r *Request) readKeepAlive(v wirejson.Value) *field.Error {
	switch v.Kind() {
	case wirejson.KindNumber:
		r.unload = v.Equals("0")
	case wirejson.KindString:
		d, err := time.ParseDuration(v.Text())
		r.unload = err == nil && d == 0
	}
	return nil
}

func (r *Request) readLogprobs(v wirejson.Value) *field.Error {
	if v.IsTrue() {
		return field.Refuse(v, prompt.NoLogprobs)
	}
	return nil
}

// readSuffix refuses a suffix (a text that is to follow the answer). Ollama refuses it for most models.
func readSuffix(r *Request, v wirejson.Value) *field.Error {
	var suffix string
	f := field.Text(&suffix, v)
	if f == nil && suffix != "" {
		f = field.Unsupported("is not supported: this model does not support insert")
	}
	return f
}

func (r *Request) readTools(v wirejson.Value) *field.Error {
	r.Tools = nil
	names := make(map[string]bool) // on the stack
	return field.Elements(v, prompt.MaxTools, "tools", func(_ int, v wirejson.Value) *field.Error {
		var kind, function wirejson.Value
		if f := field.Object(v, wirejson.Into("type", &kind), wirejson.Into("function", &function)); f != nil {
			return f
		}
		if kind.Given() && !kind.Is("function") && !kind.Is("") {
			return field.Unsupported("must be 'function'").In("type")
		}
		t, f := prompt.ReadFunction(function)
		r.Tools = append(r.Tools, t)
		return cmp.Or(f, prompt.AddName(&names, t.Name, true)).In("function")
	})
}

// addParts adds a text and images to a message. A text that is absent or empty adds nothing.
func addParts(m *prompt.Message, text, images wirejson.Value) *field.Error {
	if text.Given() && len(text.RawText()) > 0 {
		m.Content = append(m.Content, prompt.Part{Text: text})
	}
	return field.Elements(images, prompt.MaxItems, prompt.AllItems, func(_ int, v wirejson.Value) *field.Error {
		p, f := readImage(v)
		m.Content = append(m.Content, p)
		return f
	}).In("images")
}

// readImage reads an image in base64, or a data URL, which Ollama does not accept but some clients send.
func readImage(v wirejson.Value) (prompt.Part, *field.Error) {
	if v.Kind() == wirejson.KindString && strings.HasPrefix(string(v.RawText()[:min(len(v.RawText()), 5)]), "data:") {
		return prompt.ImagePart(v, nil, "")
	}
	return prompt.Base64Image(v)
}
