package chat

import (
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// TestPictures encodes pictures, streamed and whole. Of one that failed the model speaks.
func TestPictures(t *testing.T) {
	outs := []turn.Output{
		{Kind: turn.OutputPictureStart, ID: "c"}, {Kind: turn.OutputPicture, ID: "c", Text: "AAAA"},
		{Kind: turn.OutputPictureStart, ID: "d"}, {Kind: turn.OutputPicture, ID: "d", Err: turn.ErrNoPictures},
		{Kind: turn.OutputPictureStart, ID: "e"}, {Kind: turn.OutputPicture, ID: "e", Text: "BBBB"},
		textOut("There."), finishOut(turn.FinishStop),
	}
	const first, second = `{"index":0,"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`, `{"index":1,"type":"image_url","image_url":{"url":"data:image/png;base64,BBBB"}}`
	got := strings.Join(chunks(t, testMeta, outs), "\n")
	for _, want := range []string{`"delta":{"images":[` + first + `]}`, `"delta":{"images":[` + second + `]}`} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	if body := string(bodyOf(t, outs).JSON()); !strings.Contains(body, `"images":[`+first+`,`+second+`]`) {
		t.Errorf("the body is %s", body)
	}
}

// TestModalities: pictures are asked for with a modality, which the operator may not allow, and those
// of an earlier answer are shown to the model.
func TestModalities(t *testing.T) {
	r := mustDecode(t, withFields(`"modalities":["image","text"]`))
	if p, _ := r.Plan(prompt.Options{}); !p.Pictures || p.PictureOnly || !strings.Contains(string(p.Thread.Config.Fixed), `"image_generation":true`) {
		t.Errorf("the plan is %+v", p)
	}
	if apiErr := r.Without(prompt.PictureTool); apiErr == nil || apiErr.Code != apierror.CodeUnsupportedParameter || apiErr.Param != "modalities" {
		t.Errorf("%v", apiErr)
	}
	if p, _ := mustDecode(t, withFields(`"modalities":["text"]`)).Plan(prompt.Options{}); p.Pictures {
		t.Error("the model may make pictures")
	}
	const part = `{"type":"image_url","image_url":{"url":"` + pngURL + `"}}`
	for name, said := range map[string]string{
		"images": `"content":"See:","images":[` + part + `]`, "a part": `"content":[{"type":"text","text":"See:"},` + part + `]`,
	} {
		p, _ := mustDecode(t, withMessages(`{"role":"user","content":"x"},{"role":"assistant",`+said+`},{"role":"user","content":"y"}`)).Plan(prompt.Options{})
		if len(p.History) != 3 || !strings.Contains(string(p.History[1]), `"role":"assistant","content":[{"type":"output_text","text":"See:"}]`) ||
			!strings.Contains(string(p.History[2]), `"role":"user","content":[{"type":"input_text","text":"A picture that you have made."},{"type":"input_image","image_url":"`+pngURL+`"`) {
			t.Errorf("%s: %s", name, p.History)
		}
	}
}
