package chat

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// paint is a model that calls Codex's tool for pictures with the user's text, as the instructions say.
// A text that begins with "write:" it only repeats, and one that begins with "read:" names a file.
func paint(req scriptedmodel.Request) (scriptedmodel.Script, bool) {
	text := req.UserText()
	if said, ok := strings.CutPrefix(text, "write:"); ok {
		return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say(said)}}, true
	}
	if len(req.ToolResults()) > 0 {
		return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("a second request")}}, true
	}
	arguments := e2e.Fields{"prompt": text}
	if path, ok := strings.CutPrefix(text, "read:"); ok {
		arguments["referenced_image_paths"] = []string{path}
	}
	if bytes.Contains(req.Body, []byte("Set transparent_background to true")) {
		arguments["transparent_background"] = true
	}
	for n := range 6 {
		if bytes.Contains(req.Body, fmt.Appendf(nil, "Set num_last_images_to_include to %d", n)) {
			arguments["num_last_images_to_include"] = n
		}
	}
	call := scriptedmodel.Call{Namespace: "image_gen", Name: "imagegen", Arguments: e2e.EncodeJSON(arguments)}
	return scriptedmodel.Script{Output: []scriptedmodel.Output{call}}, true
}

// hangOnResults does not answer a picture. Codex may show it before the gateway has interrupted it.
func hangOnResults(req scriptedmodel.Request) (scriptedmodel.Script, bool) {
	return scriptedmodel.Script{End: scriptedmodel.Hang{}}, len(req.ToolResults()) > 0
}

// pictureSite returns a site that makes pictures, with a model that calls the tool for them.
func pictureSite(t *testing.T, options string) *e2e.Site {
	t.Helper()
	e2e.WithLogin(t)
	s := e2e.NewSite(t, "images on\n"+options)
	t.Cleanup(s.Model.On(paint))
	return s
}

// TestPictures makes pictures with the official client, whole and streamed, of a text and of other
// pictures. A turn ends with its picture: a request that follows is cancelled, and not counted.
func TestPictures(t *testing.T) {
	s := pictureSite(t, "keepalive 200ms")
	client := s.Client()
	pictures := func() int64 { return s.Usage("").Get("pictures").Int() }
	before := pictures()
	goesOn := s.Model.On(hangOnResults)
	made, err := client.Images.Generate(e2e.Context(t), openai.ImageGenerateParams{
		Prompt: "A cat, \"word\" for\nword", Model: "gpt-image-1", N: openai.Int(3), Background: openai.ImageGenerateParamsBackgroundTransparent,
	})
	must.OK(t, err)
	s.WaitOpen(0)
	goesOn()
	if n := pictures() - before; n != 3 {
		t.Errorf("%d pictures are counted", n)
	}
	size := fmt.Sprintf("%dx%d", planbackend.PictureWidth, planbackend.PictureHeight)
	used := scriptedmodel.DefaultUsage
	if len(made.Data) != 3 || string(made.Size) != size || made.Background != "transparent" || made.OutputFormat != "png" || made.Usage.TotalTokens != 3*int64(used.Input+used.Output) {
		t.Errorf("the answer is %s", made.RawJSON())
	}
	for _, one := range made.Data {
		if one.B64JSON != planbackend.MadePicture || one.RevisedPrompt != "A cat, \"word\" for\nword" {
			t.Errorf("a picture is %s", one.RawJSON())
		}
	}
	asked := s.Plan.PicturesAsked()
	if len(asked) != 3 || asked[0].Prompt != "A cat, \"word\" for\nword" || asked[0].Background != "transparent" || asked[0].Edit {
		t.Errorf("the back end was asked for %+v", asked)
	}

	t.Run("streamed, and slow", func(t *testing.T) {
		until := make(chan struct{})
		defer s.Plan.Fail(planbackend.Pictures, planbackend.Held(until))()
		response := s.Do(http.MethodPost, "/v1/images/generations", strings.NewReader(`{"prompt":"A dog","stream":true,"quality":"high","size":"1024x1536"}`), nil)
		defer response.Body.Close()
		if ignored := response.Header.Get("X-Codex-Ignored-Params"); ignored != "quality, size" {
			t.Errorf("ignored: %q", ignored)
		}
		beat := make([]byte, 1)
		if _, err := io.ReadFull(response.Body, beat); err != nil || beat[0] != ':' {
			t.Errorf("no keepalive, but %q, %v", beat, err)
		}
		close(until)
		if text := s.Read(response); !strings.Contains(text, "event: image_generation.completed\n") {
			t.Errorf("the stream is %q", text)
		}
		asked := s.Plan.PicturesAsked()
		if last := asked[len(asked)-1].Prompt; last != "A dog\n\nThe picture is portrait, 1024 by 1536 pixels." {
			t.Errorf("the prompt is %q", last)
		}
	})

	t.Run("streamed by the client", func(t *testing.T) {
		stream := client.Images.GenerateStreaming(e2e.Context(t), openai.ImageGenerateParams{Prompt: "A dog", N: openai.Int(2)})
		var events []string
		for stream.Next() {
			event := stream.Current()
			events = append(events, event.Type)
			if event.B64JSON != planbackend.MadePicture || event.Usage.TotalTokens == 0 || event.Size != size {
				t.Errorf("an event is %s", event.RawJSON())
			}
		}
		if stream.Err() != nil || len(events) != 2 || events[0] != "image_generation.completed" {
			t.Errorf("the events are %q, %v", events, stream.Err())
		}
	})

	t.Run("edited", func(t *testing.T) {
		picture, err := base64.StdEncoding.DecodeString(planbackend.MadePicture)
		must.OK(t, err)
		file := func() io.Reader { return openai.File(bytes.NewReader(picture), "a.png", "image/png") }
		made, err := client.Images.Edit(e2e.Context(t), openai.ImageEditParams{
			Prompt: "Both in one", Image: openai.ImageEditParamsImageUnion{OfFileArray: []io.Reader{file(), file()}},
		})
		if err != nil || len(made.Data) != 1 {
			t.Fatal(made, err)
		}
		dataURL := "data:image/png;base64," + planbackend.MadePicture
		status, body := postPicture(s, "edits", e2e.EncodeJSON(e2e.Fields{"prompt": "One", "images": []e2e.Fields{{"image_url": dataURL}}}))
		if status != http.StatusOK || gjson.Get(body, "data.0.b64_json").Str != planbackend.MadePicture {
			t.Errorf("an edit in JSON: %d %.300s", status, body)
		}
		asked := s.Plan.PicturesAsked()
		for i, n := range []int{2, 1} {
			if one := asked[len(asked)-2+i]; !one.Edit || len(one.Images) != n || !strings.HasPrefix(one.Images[0], "data:image/png;base64,") {
				t.Errorf("the back end was asked for %+.300v", one)
			}
		}
		_, err = client.Images.Edit(e2e.Context(t), openai.ImageEditParams{
			Prompt: "x", Image: openai.ImageEditParamsImageUnion{OfFile: file()}, Mask: file(),
		})
		checkPictureError(t, err, http.StatusBadRequest, "unsupported_parameter")
		err = client.Post(e2e.Context(t), "images/variations", map[string]string{}, nil)
		checkPictureError(t, err, http.StatusNotFound, "unknown_url")
	})

	t.Run("with a file of the host", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "secret.png")
		picture, _ := base64.StdEncoding.DecodeString(planbackend.MadePicture)
		must.OK(t, os.WriteFile(path, picture, 0o600))
		before := len(s.Plan.PicturesAsked())
		_, err := client.Images.Generate(e2e.Context(t), openai.ImageGenerateParams{Prompt: "read:" + path})
		checkPictureError(t, err, http.StatusBadRequest, "image_not_generated")
		if asked := s.Plan.PicturesAsked()[before:]; len(asked) > 0 {
			t.Errorf("the back end got %+v", asked)
		}
	})

	t.Run("no file is written", func(t *testing.T) {
		for _, pid := range e2e.AppServers() {
			environment := e2e.ReadFile(t, fmt.Sprintf("/proc/%d/environ", pid))
			_, home, _ := strings.Cut("\x00"+environment, "\x00CODEX_HOME=")
			home, _, _ = strings.Cut(home, "\x00")
			if info, err := os.Stat(filepath.Join(home, "generated_images")); err != nil || !info.Mode().IsRegular() || info.Size() != 0 {
				t.Errorf("%v, %v", info, err)
			}
		}
	})

	t.Run("a call of a client's tools is another one", func(t *testing.T) {
		response, text := s.Post(e2e.ChatBody("A cat", e2e.Fields{"tools": []any{e2e.Tool("imagegen"), e2e.Tool("image_gen")}}), nil)
		if response.StatusCode != http.StatusOK || gjson.Get(text, "choices.0.message.content").Str != "a second request" || gjson.Get(text, "choices.0.message.tool_calls").Exists() {
			t.Errorf("%s %s", response.Status, text)
		}
	})

	t.Run("refused", func(t *testing.T) {
		for body, code := range map[string]string{
			`{"prompt":"x","response_format":"url"}`:  "unsupported_parameter",
			`{"prompt":"x","output_format":"webp"}`:   "unsupported_parameter",
			`{"prompt":"x","n":11}`:                   "invalid_value",
			`{"prompt":"write: I would rather not."}`: "image_not_generated",
		} {
			status, answer := postPicture(s, "generations", body)
			if status != http.StatusBadRequest || gjson.Get(answer, "error.code").Str != code {
				t.Errorf("%s: %d %s", body, status, answer)
			}
			if code == "image_not_generated" && !strings.Contains(answer, "I would rather not.") {
				t.Errorf("the model's reason is missing: %s", answer)
			}
		}
	})

	for _, c := range []struct {
		name   string
		fault  planbackend.Fault
		status int
		code   string
	}{
		{"moderation", planbackend.Status(http.StatusBadRequest, "moderation_blocked"), http.StatusBadRequest, "moderation_blocked"},
		{"spent", planbackend.Status(http.StatusTooManyRequests, "usage_limit_reached"), http.StatusTooManyRequests, "insufficient_quota"},
		{"limited", planbackend.Status(http.StatusTooManyRequests, "rate_limit_exceeded"), http.StatusTooManyRequests, "rate_limit_exceeded"},
		{"unauthorized", planbackend.Status(http.StatusUnauthorized), http.StatusServiceUnavailable, "codex_unauthorized"},
		{"a page", planbackend.HTML(http.StatusForbidden), http.StatusForbidden, "images_unavailable"},
		{"5xx", planbackend.Status(http.StatusBadGateway), http.StatusBadGateway, "upstream_error"},
		{"reset", planbackend.Down(), http.StatusBadGateway, "upstream_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer s.Plan.Fail(planbackend.Pictures, c.fault)()
			_, err := client.Images.Generate(e2e.Context(t), openai.ImageGenerateParams{Prompt: "A cat"})
			checkPictureError(t, err, c.status, c.code)
		})
	}
	t.Run("no picture", func(t *testing.T) {
		s.Plan.SetPicture(base64.StdEncoding.EncodeToString([]byte("this is no picture at all")))
		defer s.Plan.SetPicture("")
		_, err := client.Images.Generate(e2e.Context(t), openai.ImageGenerateParams{Prompt: "A cat"})
		checkPictureError(t, err, http.StatusBadGateway, "upstream_error")
	})
	t.Run("some of several", func(t *testing.T) {
		defer s.Plan.Fail(planbackend.Pictures, planbackend.Status(http.StatusBadRequest, "moderation_blocked").For(1))()
		made, err := client.Images.Generate(e2e.Context(t), openai.ImageGenerateParams{Prompt: "A cat", N: openai.Int(2)})
		if err != nil || len(made.Data) != 1 {
			t.Error(made, err)
		}
	})
}

// TestPicturesOfLogins: a login that makes no pictures, or has none left, leaves them to another one,
// and goes on to chat.
func TestPicturesOfLogins(t *testing.T) {
	s := pictureSite(t, "")
	server := func(home string) string {
		return "app_server " + e2e.CodexBinary + " app-server {\nhome " + home + "\n}\n"
	}
	login := func(plan string) (*planbackend.Login, string) {
		other, home := s.Plan.AddLogin(planbackend.LoginOptions{Plan: plan}), t.TempDir()
		must.OK(t, other.Write(home))
		return other, home
	}
	free, freeHome := login("free")
	other, otherHome := login("go")
	s.Load(s.Caddyfile(server(freeHome) + server(s.Home) + server(otherHome) + "images on\n"))
	s.WaitMembers(3)
	s.Plan.Fail(planbackend.Pictures, planbackend.Status(http.StatusTooManyRequests, "usage_limit_reached"), s.Login)
	for range 4 {
		if status, answer := postPicture(s, "generations", `{"prompt":"A cat"}`); status != http.StatusOK {
			t.Errorf("%d %s", status, answer)
		}
		s.Served("write: yes")
	}
	made, refused := s.Plan.Count(planbackend.Pictures, other), s.Plan.Count(planbackend.Pictures, free)
	if spent := s.Plan.Count(planbackend.Pictures, s.Login); made != 4 || refused != 0 || spent > 1 {
		t.Errorf("the other login was asked %d times, the free one %d times, the spent one %d times", made, refused, spent)
	}
	s.Load(s.Caddyfile(server(freeHome) + "images on\n"))
	status, answer := postPicture(s, "generations", `{"prompt":"A cat"}`)
	if status != http.StatusForbidden || gjson.Get(answer, "error.code").Str != "images_unavailable" {
		t.Errorf("with a free plan: %d %s", status, answer)
	}
	s.Load(s.Caddyfile(server(freeHome)))
	if status, answer := postPicture(s, "generations", `{"prompt":"A cat"}`); status != http.StatusNotFound || gjson.Get(answer, "error.code").Str != "unknown_url" {
		t.Errorf("without the option: %d %s", status, answer)
	}
}

func postPicture(s *e2e.Site, route, body string) (status int, answer string) {
	response := s.Do(http.MethodPost, "/v1/images/"+route, strings.NewReader(body), nil)
	return response.StatusCode, s.Read(response)
}

func checkPictureError(t *testing.T, err error, status int, code string) {
	t.Helper()
	var apiErr *openai.Error
	if !errors.As(err, &apiErr) || apiErr.StatusCode != status || apiErr.Code != code {
		t.Errorf("want %d %s, not %v", status, code, err)
	}
}
