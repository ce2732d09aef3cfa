package responses

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// aPNG is the smallest PNG.
const aPNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNiAAAABgADNjd8qAAAAABJRU5ErkJggg=="

// TestPictureItems compares streams and bodies with pictures, which have OpenAI's form.
func TestPictureItems(t *testing.T) {
	meta := metaOf(t, withMember(`"tools":[{"type":"image_generation"}]`))
	began := turn.Output{Kind: turn.OutputPictureStart, ID: "c"}
	made := turn.Output{Kind: turn.OutputPicture, ID: "c", Text: aPNG, Name: `a "cat"`}
	failed := turn.Output{Kind: turn.OutputPicture, ID: "c", Err: &turn.PictureError{Status: 400, Code: "moderation_blocked", Message: "No."}}
	for name, test := range map[string]struct {
		outs []turn.Output
		want string // in the body
	}{
		"made":      {[]turn.Output{textOut("See:"), began, made, textOut("There."), finishOut(turn.FinishStop)}, `"type":"image_generation_call","status":"completed","result":"` + aPNG + `","revised_prompt":"a \"cat\""`},
		"failed":    {[]turn.Output{began, failed, textOut("No."), finishOut(turn.FinishStop)}, `"status":"failed","result":null,"error":{"message":"No.","type":"invalid_request_error","param":null,"code":"moderation_blocked"}`},
		"cut":       {[]turn.Output{began, finishOut(turn.FinishLength)}, `"status":"failed","result":null}`},
		"unordered": {[]turn.Output{made, finishOut(turn.FinishStop)}, `"output":[]`},
	} {
		t.Run(name, func(t *testing.T) {
			checkResponseFold(t, meta, test.outs)
			if body := string(bodyOfResponse(meta, test.outs).JSON()); !strings.Contains(body, test.want) {
				t.Errorf("the response is %s", body)
			}
		})
	}
}

// TestPictureTool reads the tool for pictures.
func TestPictureTool(t *testing.T) {
	plan := func(body string) *prompt.Plan {
		p, apiErr := responseOf(t, withMember(body)).Plan(prompt.Options{})
		if apiErr != nil {
			t.Fatal(apiErr)
		}
		return p
	}
	p := plan(`"tools":[{"type":"function","name":"f"},{"type":"image_generation","size":"1024x1536","background":"transparent","quality":"high","moderation":"auto","action":"edit","model":"gpt-image-1","partial_images":2}],"tool_choice":{"type":"image_generation"}`)
	if !p.Pictures || p.PictureOnly || p.Thread.DynamicTools != nil || !strings.Contains(string(p.Thread.Config.Fixed), `"image_generation":true`) {
		t.Errorf("the plan is %+v", p)
	}
	for _, want := range []string{"must make a picture", "portrait, 1024 by 1536", "transparent_background to true", "num_last_images_to_include"} {
		if !strings.Contains(p.Thread.DeveloperInstructions, want) {
			t.Errorf("%q lacks %q", p.Thread.DeveloperInstructions, want)
		}
	}
	ignored := slices.Sorted(slices.Values(p.Ignored))
	if !slices.Equal(ignored, []string{"tools[1].model", "tools[1].partial_images", "tools[1].quality", "tools[1].size"}) {
		t.Errorf("ignored: %q", ignored)
	}
	const both = `"tools":[{"type":"function","name":"f"},{"type":"image_generation"}],"tool_choice":`
	for _, choice := range []string{`"none"`, `{"type":"function","name":"f"}`} {
		if p := plan(both + choice); p.Pictures || strings.Contains(string(p.Thread.Config.Fixed), `"image_generation":true`) {
			t.Errorf("%s: the model may make pictures", choice)
		}
	}
	if p := plan(`"tools":[{"type":"image_generation"},{"type":"web_search"}],"tool_choice":"required"`); !p.Pictures || !p.WebSearch {
		t.Errorf("the plan is %+v", p)
	}
	for tool, want := range map[string]struct {
		param string
		code  apierror.Code
	}{
		`{"type":"image_generation"},{"type":"image_generation"}`:          {"tools[1].type", apierror.CodeInvalidValue},
		`{"type":"image_generation","size":"huge"}`:                        {"tools[0].size", apierror.CodeInvalidValue},
		`{"type":"image_generation","output_format":"webp"}`:               {"tools[0].output_format", apierror.CodeUnsupportedParameter},
		`{"type":"image_generation","input_image_mask":{"image_url":"x"}}`: {"tools[0].input_image_mask", apierror.CodeUnsupportedParameter},
		`{"type":"image_generation","action":"paint"}`:                     {"tools[0].action", apierror.CodeInvalidValue},
		`{"type":"image_generation","partial_images":"1"}`:                 {"tools[0].partial_images", apierror.CodeInvalidType},
	} {
		if _, err := Decode([]byte(withMember(`"tools":[` + tool + `]`))); err == nil || err.Param != want.param || err.Code != want.code {
			t.Errorf("%s: %v", tool, err)
		}
	}
	r := responseOf(t, withMember(both+`"auto"`))
	if apiErr := r.Without(prompt.PictureTool); apiErr == nil || apiErr.Param != "tools[1].type" || apiErr.Code != apierror.CodeUnsupportedParameter {
		t.Errorf("%v", apiErr)
	}
	r = responseOf(t, withMember(`"client_metadata":{"x-codex-installation-id":"i"},`+both+`"auto"`))
	if apiErr := r.Without(prompt.PictureTool); apiErr != nil || r.Pictures != nil || strings.Contains(string(r.settingsJSON()), "image_generation") {
		t.Errorf("a Codex: %v, %s", apiErr, r.settingsJSON())
	}
}

// TestPictureRead: a picture of an earlier answer is shown to the model, and one that is only named is
// looked up.
func TestPictureRead(t *testing.T) {
	const ask = `{"role":"user","content":"x"},`
	item := func(more string) string {
		return `"input":[` + ask + `{"type":"image_generation_call","id":"ig_1"` + more + `},{"role":"user","content":"y"}]`
	}
	p, apiErr := responseOf(t, withMember(item(`,"status":"completed","result":"`+aPNG+`","revised_prompt":"a cat"`))).Plan(prompt.Options{})
	if apiErr != nil || len(p.History) != 2 || !strings.Contains(string(p.History[1]), `"text":"A picture that you have made of the prompt: a cat"},{"type":"input_image","image_url":"data:image/png;base64,`+aPNG+`"`) {
		t.Errorf("%v, %s", apiErr, p.History)
	}
	if p, apiErr := responseOf(t, withMember(item(`,"status":"failed","result":null`))).Plan(prompt.Options{}); apiErr != nil || len(p.History) != 1 {
		t.Errorf("a failed one: %v, %s", apiErr, p.History)
	}
	r, err := Decode([]byte(withMember(item(""))))
	if err != nil || !slices.Equal(r.References(), []string{"ig_1"}) {
		t.Errorf("%v, %v", err, r.References())
	}
	for _, bad := range []string{`,"result":"%"`, `,"result":"aGVsbG8="`, `,"result":3`} {
		if _, err := Decode([]byte(withMember(item(bad)))); err == nil || err.Param != "input[1].result" {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
