package responses

import (
	"cmp"
	"math"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

func (r *Request) readText(v wirejson.Value) *field.Error {
	r.Format, r.echoed.Text.Format, r.Verbosity = prompt.Format{}, nil, ""
	return field.Members(v, r, textReaders)
}

var textReaders = field.Readers[*Request]{
	"format": func(r *Request, v wirejson.Value) *field.Error {
		if v.Given() {
			r.echoed.Text.Format = v
		}
		return r.Format.Read(v, true)
	},
	"verbosity": (*Request).ReadVerbosity,
}

func (r *Request) readReasoning(v wirejson.Value) *field.Error {
	r.Effort, r.Summary = "", ""
	return field.Members(v, r, reasoningReaders)
}

var reasoningReaders = field.Readers[*Request]{
	"effort": func(r *Request, v wirejson.Value) *field.Error {
		r.EffortField = "reasoning.effort"
		return r.ReadReasoningEffort(v)
	},
	"summary":          (*Request).readSummary,
	"generate_summary": (*Request).readSummary, // the older name of summary
}

func (r *Request) readSummary(v wirejson.Value) *field.Error {
	return field.OneOf(&r.Summary, []string{"auto", "concise", "detailed"}, v)
}

// includable lists the values of include (IncludeEnum). includeEncrypted has an effect, and
// includeLogprobs is refused. All others are accepted and have no effect.
var includable = []string{
	includeEncrypted,
	includeLogprobs,
	"file_search_call.results",
	"web_search_call.results",
	"web_search_call.action.sources",
	"message.input_image.image_url",
	"computer_call_output.output.image_url",
	"code_interpreter_call.outputs",
}

const (
	includeEncrypted = "reasoning.encrypted_content"
	includeLogprobs  = "message.output_text.logprobs"
)

func (r *Request) readInclude(v wirejson.Value) *field.Error {
	r.Encrypted = false
	return field.Elements(v, math.MaxInt, "", func(_ int, v wirejson.Value) *field.Error {
		var name string
		f := cmp.Or(field.Expect(wirejson.KindString, v), field.OneOf(&name, includable, v))
		if name == includeLogprobs {
			return field.Refuse(v, prompt.NoLogprobs)
		}
		r.Encrypted = r.Encrypted || name == includeEncrypted
		return f
	})
}

// The limits of metadata: the most pairs, and the most characters of a name and of a value.
const (
	maxMetadata      = 16
	maxMetadataName  = 64
	maxMetadataValue = 512
)

func (r *Request) readMetadata(v wirejson.Value) *field.Error {
	r.echoed.Metadata = v.OrAbsent()
	if f := field.Optional(wirejson.KindObject, v); f != nil || !v.Given() {
		return f
	}
	count := 0
	for name, v := range v.Members() {
		switch count++; {
		case count > maxMetadata:
			return field.Invalid("must hold at most %d pairs", maxMetadata)
		case utf8.RuneCount(name) > maxMetadataName:
			return field.Invalid("its names must be at most %d characters long", maxMetadataName)
		case v.Kind() != wirejson.KindString:
			return field.WrongType(wirejson.KindString, v).In(string(name))
		case utf8.RuneCount(v.Bytes()) > maxMetadataValue:
			return field.Invalid("must be at most %d characters long", maxMetadataValue).In(string(name))
		}
	}
	return nil
}
