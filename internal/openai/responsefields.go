package openai

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// readText reads text: the format of the answer, and its verbosity.
func (r *ResponseRequest) readText(v jsontext.Value) *fault {
	r.format, r.echo.format, r.verbosity = responseFormat{}, nil, ""
	if !v.Given() {
		return nil
	}
	if f := expect(jsontext.KindObject, v); f != nil {
		return f
	}
	for name, v := range v.Members() {
		switch string(name) {
		case "format":
			if f := r.readFormat(v); f != nil {
				return f.in("format")
			}
		case "verbosity":
			if f := r.readVerbosity(v); f != nil {
				return f.in("verbosity")
			}
		}
	}
	return nil
}

// readFormat reads text.format.
func (r *ResponseRequest) readFormat(v jsontext.Value) *fault {
	if v.Given() {
		r.echo.format = v
	}
	return r.format.read(v, true)
}

// summaries are the values of reasoning.summary.
var summaries = []string{"auto", "concise", "detailed"}

func (r *ResponseRequest) readReasoning(v jsontext.Value) *fault {
	r.effort, r.summary = "", ""
	if !v.Given() {
		return nil
	}
	if f := expect(jsontext.KindObject, v); f != nil {
		return f
	}
	for name, v := range v.Members() {
		switch name := string(name); name {
		case "effort":
			if f := r.readReasoningEffort(v); f != nil {
				return f.in(name)
			}
		case "summary", "generate_summary": // the second is the older name
			if f := r.readSummary(v); f != nil {
				return f.in(name)
			}
		}
	}
	return nil
}

func (r *ResponseRequest) readSummary(v jsontext.Value) *fault {
	return readOneOf(&r.summary, summaries, v)
}

// includable are the values of include (IncludeEnum). All but one belong to
// hosted tools, of which there is never any output.
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

func (r *ResponseRequest) readInclude(v jsontext.Value) *fault {
	r.encrypted = false
	if !v.Given() {
		return nil
	}
	if f := expect(jsontext.KindArray, v); f != nil {
		return f
	}
	for i, v := range v.Elements() {
		if f := expect(jsontext.KindString, v); f != nil {
			return f.at(i)
		}
		switch name := v.Text(); {
		case name == includeEncrypted:
			r.encrypted = true
		case name == includeLogprobs:
			return unsupported("is not supported: Codex gives no log probabilities").at(i)
		case !slices.Contains(includable, name):
			return wrongValue("must be one of %s", strings.Join(includable, ", ")).at(i)
		}
	}
	return nil
}

// The limits of metadata.
const (
	maxMetadata      = 16
	maxMetadataName  = 64
	maxMetadataValue = 512
)

func (r *ResponseRequest) readMetadata(v jsontext.Value) *fault {
	r.echo.metadata = nil
	if !v.Given() {
		return nil
	}
	if f := expect(jsontext.KindObject, v); f != nil {
		return f
	}
	count := 0
	for name, v := range v.Members() {
		if count++; count > maxMetadata {
			return wrongValue("must hold at most %d pairs", maxMetadata)
		}
		if utf8.RuneCount(name) > maxMetadataName {
			return wrongValue("its names must be at most %d characters long", maxMetadataName)
		}
		if f := expect(jsontext.KindString, v); f != nil {
			return f.in(string(name))
		}
		if utf8.RuneCount(v.Bytes()) > maxMetadataValue {
			return wrongValue("must be at most %d characters long", maxMetadataValue).in(string(name))
		}
	}
	r.echo.metadata = v
	return nil
}
