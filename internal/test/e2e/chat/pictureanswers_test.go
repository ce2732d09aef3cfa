package chat

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// pictureTool lets the model of a response make pictures.
var pictureTool = e2e.Fields{"tools": []any{e2e.Fields{"type": "image_generation", "background": "transparent"}}}

// shownPictures counts the pictures that the model was shown in its last request.
func shownPictures(s *e2e.Site) int {
	all := s.Model.Requests()
	return strings.Count(string(all[len(all)-1].Body), "data:image/png;base64,"+planbackend.MadePicture)
}

// picturesInResponses lets the model make pictures within responses.
func picturesInResponses(t *testing.T, s *e2e.Site) {
	client := s.Client()
	made, err := client.Responses.New(e2e.Context(t), responses.ResponseNewParams{
		Model: "gpt-5", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("A cat")},
		Tools: []responses.ToolUnionParam{{OfImageGeneration: &responses.ToolImageGenerationParam{Background: "transparent"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(made.Output) != 2 || made.OutputText() != "a second request" || made.Usage.TotalTokens == 0 {
		t.Fatal(made.RawJSON())
	}
	picture := made.Output[0].AsImageGenerationCall()
	if picture.Status != "completed" || picture.Result != planbackend.MadePicture || !strings.Contains(picture.RawJSON(), `"revised_prompt":"A cat"`) || !strings.HasPrefix(picture.ID, "ig_") {
		t.Errorf("the picture is %s", picture.RawJSON())
	}
	asked := s.Plan.PicturesAsked()
	if last := asked[len(asked)-1]; last.Prompt != "A cat" || last.Background != "transparent" {
		t.Errorf("the back end was asked for %+v", last)
	}

	t.Run("streamed, slow, and stored", func(t *testing.T) {
		until := make(chan struct{})
		defer s.Plan.Fail(planbackend.Pictures, planbackend.Held(until))()
		request := e2e.Asks("A dog", pictureTool)
		request["stream"] = true
		response := s.Do(http.MethodPost, "/v1/responses", strings.NewReader(e2e.EncodeJSON(request)), nil)
		defer response.Body.Close()
		text := readUntil(t, response, "\n:") // a keepalive
		close(until)
		text += s.Read(response)
		order := ""
		for line := range strings.Lines(text) {
			if event, ok := strings.CutPrefix(line, "event: response."); ok {
				order += strings.TrimSpace(event) + " "
			}
		}
		const want = "output_item.added image_generation_call.in_progress image_generation_call.generating image_generation_call.completed output_item.done output_item.added content_part.added"
		if !strings.Contains(order, want) || !strings.HasSuffix(order, " completed ") {
			t.Errorf("the events are %s", order)
		}
		last := strings.TrimSpace(text[strings.LastIndex(text, "data: ")+len("data: "):])
		whole := gjson.Get(last, "response").Raw
		if _, stored := s.Get("/v1/responses/" + gjson.Get(whole, "id").Str); stored != whole {
			t.Errorf("stored: %.300s\nsent: %.300s", stored, whole)
		}
	})

	t.Run("left", func(t *testing.T) {
		until := make(chan struct{})
		defer s.Plan.Fail(planbackend.Pictures, planbackend.Held(until))()
		defer close(until)
		request := e2e.Asks("A dog", pictureTool)
		request["stream"] = true
		response := s.Do(http.MethodPost, "/v1/responses", strings.NewReader(e2e.EncodeJSON(request)), nil)
		text := readUntil(t, response, "image_generation_call.generating")
		_ = response.Body.Close()
		_, id, _ := strings.Cut(text, `"response":{"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		e2e.WaitFor(t, "the end of the response", func() bool {
			_, body := s.Get("/v1/responses/" + id)
			return gjson.Get(body, "status").Str == "cancelled" && gjson.Get(body, "output.0.status").Str == "failed"
		})
	})

	t.Run("shown again", func(t *testing.T) {
		for name, input := range map[string]e2e.Fields{
			"by the response before": e2e.Asks("write:yes", e2e.Fields{"previous_response_id": made.ID}),
			"by the item":            e2e.Asks([]any{json.RawMessage(picture.RawJSON()), e2e.Says("user", "write:yes")}, nil),
			"by the id of the item":  e2e.Asks([]any{e2e.Fields{"type": "image_generation_call", "id": picture.ID}, e2e.Says("user", "write:yes")}, nil),
		} {
			if r := s.Respond(input, nil); r.Text() != "yes" || shownPictures(s) != 1 {
				t.Errorf("%s: %q, with %d pictures", name, r.Text(), shownPictures(s))
			}
		}
	})

	t.Run("two of a usual size", func(t *testing.T) {
		small, _ := base64.StdEncoding.DecodeString(planbackend.MadePicture)
		large := base64.StdEncoding.EncodeToString(append(small, make([]byte, 2<<20)...))
		s.Plan.SetPicture(large)
		defer s.Plan.SetPicture("")
		for range 3 { // Codex makes them in any order
			_, body := s.Get("/v1/responses/" + s.Respond(e2e.Asks("two:cats", pictureTool), nil).ID)
			for i := range 2 {
				if picture := gjson.Get(body, fmt.Sprintf("output.%d", i)); picture.Get("status").Str != "completed" || picture.Get("result").Str != large {
					t.Errorf("picture %d: %.300s", i, picture.Raw)
				}
			}
		}
	})

	t.Run("text between two", func(t *testing.T) {
		for range 3 { // Codex makes them in any order
			r := s.Respond(e2e.Asks("between:cats", pictureTool), nil)
			_, body := s.Get("/v1/responses/" + r.ID)
			want := "image_generation_call message image_generation_call message"
			if gjson.Get(body, "output.0.revised_prompt").Str != "A cat" { // the second one was made first
				want = "image_generation_call image_generation_call message message"
			}
			if r.Types() != want || !strings.HasPrefix(r.Text(), "between") {
				t.Errorf("%s, want %s: %.600s", r.Types(), want, body)
			}
		}
	})

	t.Run("with a colour profile that is too large to be sent again", func(t *testing.T) {
		s.Plan.SetPicture(withLargeProfile(t, planbackend.MadePicture))
		defer s.Plan.SetPicture("")
		first := s.Respond(e2e.Asks("A hen", pictureTool), nil)
		if _, body := s.Get("/v1/responses/" + first.ID); gjson.Get(body, "output.0.result").Str != planbackend.MadePicture {
			t.Errorf("the response is %.300s", body)
		}
		if r := s.Respond(e2e.Asks("write:yes", e2e.Fields{"previous_response_id": first.ID}), nil); r.Text() != "yes" || shownPictures(s) != 1 {
			t.Errorf("%+v, with %d pictures", r, shownPictures(s))
		}
	})

	t.Run("in the background", func(t *testing.T) {
		request := e2e.Asks("A cow", pictureTool)
		request["background"] = true
		id, body := s.Respond(request, nil).ID, ""
		e2e.WaitFor(t, "the response", func() bool {
			_, body = s.Get("/v1/responses/" + id)
			return gjson.Get(body, "status").Str == "completed"
		})
		if gjson.Get(body, "output.0.result").Str != planbackend.MadePicture {
			t.Errorf("the response is %s", body)
		}
	})

	t.Run("failed", func(t *testing.T) {
		defer s.Plan.Fail(planbackend.Pictures, planbackend.Status(http.StatusBadRequest, "moderation_blocked"))()
		r := s.Respond(e2e.Asks("A cat", pictureTool), nil)
		if r.Types() != "image_generation_call message" || r.Output[0].Status != "failed" || r.Status != "completed" {
			t.Errorf("%+v", r)
		}
		if _, stored := s.Get("/v1/responses/" + r.ID); gjson.Get(stored, "output.0.error.code").Str != "moderation_blocked" {
			t.Errorf("the response is %s", stored)
		}
	})

	t.Run("beside tools of the client with its name", func(t *testing.T) {
		tools := e2e.Fields{"tools": append([]any{e2e.FunctionTool("imagegen"), e2e.FunctionTool("image_gen")}, pictureTool["tools"].([]any)...)}
		if r := s.Respond(e2e.Asks("own:imagegen", tools), nil); r.Types() != "function_call" || r.Calls()[0].Name != "imagegen" {
			t.Errorf("a call of the client's: %+v", r)
		}
		// Codex may run the call first. It then makes no picture before the result.
		if r := s.Respond(e2e.Asks("before:imagegen", tools), nil); r.Types() != "image_generation_call function_call" || r.Output[0].Status != "completed" && r.Output[0].Status != "failed" {
			t.Errorf("a picture before a call: %+v", r)
		}
		// Codex may begin that picture before the answer ends at the call.
		if r := s.Respond(e2e.Asks("behind:imagegen", tools), nil); r.Types() != "function_call" {
			t.Errorf("a picture behind a call: %+v", r)
		}
		if r := s.Respond(e2e.Asks("A cat", tools), nil); r.Types() != "image_generation_call message" {
			t.Errorf("a call of Codex's: %+v", r)
		}
	})

	t.Run("with a file of the host", func(t *testing.T) {
		before := len(s.Plan.PicturesAsked())
		r := s.Respond(e2e.Asks("read:/etc/hostname.png", pictureTool), nil)
		if r.Types() != "image_generation_call message" || r.Output[0].Status != "failed" || len(s.Plan.PicturesAsked()) > before {
			t.Errorf("%+v", r)
		}
	})
}

// withLargeProfile returns a PNG in base64 with a colour profile of 5 MiB.
func withLargeProfile(t *testing.T, picture string) string {
	t.Helper()
	file, err := base64.StdEncoding.DecodeString(picture)
	if err != nil {
		t.Fatal(err)
	}
	chunk := bytes.NewBufferString("iCCPname\x00\x00")
	packed := zlib.NewWriter(chunk)
	_, _ = packed.Write(make([]byte, 5<<20)) // a bytes.Buffer does not fail
	_ = packed.Close()
	const header = 33 // the signature and the chunk IHDR, which precede the profile
	with := binary.BigEndian.AppendUint32(bytes.Clone(file[:header]), uint32(chunk.Len()-len("iCCP")))
	with = binary.BigEndian.AppendUint32(append(with, chunk.Bytes()...), crc32.ChecksumIEEE(chunk.Bytes()))
	return base64.StdEncoding.EncodeToString(append(with, file[header:]...))
}

// picturesInChat lets the model make pictures within chat completions.
func picturesInChat(t *testing.T, s *e2e.Site) {
	client := s.Client()
	params := openai.ChatCompletionNewParams{
		Model: "gpt-5", Modalities: []string{"text", "image"}, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("A cat")},
	}
	url := "data:image/png;base64," + planbackend.MadePicture
	made, err := client.Chat.Completions.New(e2e.Context(t), params)
	if err != nil {
		t.Fatal(err)
	}
	message := made.Choices[0].Message
	if message.Content != "a second request" || gjson.Get(message.RawJSON(), "images.0.image_url.url").Str != url || made.Usage.TotalTokens == 0 {
		t.Errorf("the completion is %s", made.RawJSON())
	}
	stream := client.Chat.Completions.NewStreaming(e2e.Context(t), params)
	var text string
	images := 0
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			text += choice.Delta.Content
			if gjson.Get(choice.Delta.RawJSON(), "images.0.image_url.url").Str == url {
				images++
			}
		}
	}
	if stream.Err() != nil || text != message.Content || images != 1 {
		t.Errorf("streamed: %q, %d pictures, %v", text, images, stream.Err())
	}
	again := []any{
		e2e.Fields{"role": "user", "content": "A cat"},
		e2e.Fields{"role": "assistant", "content": "There.", "images": []any{e2e.Fields{"type": "image_url", "image_url": e2e.Fields{"url": url}}}},
		e2e.Fields{"role": "user", "content": "write:yes"},
	}
	response, body := s.Post(e2e.EncodeJSON(e2e.Fields{"model": "gpt-5", "messages": again}), nil)
	if response.StatusCode != http.StatusOK || gjson.Get(body, "choices.0.message.content").Str != "yes" || shownPictures(s) != 1 {
		t.Errorf("sent back: %s %s, with %d pictures", response.Status, body, shownPictures(s))
	}
}

// readUntil reads an answer until it has a text.
func readUntil(t *testing.T, response *http.Response, until string) string {
	t.Helper()
	var all []byte
	for one := make([]byte, 1); !strings.HasSuffix(string(all), until); all = append(all, one...) {
		if _, err := response.Body.Read(one); err != nil {
			t.Fatalf("%s, %v", all, err)
		}
	}
	return string(all)
}
