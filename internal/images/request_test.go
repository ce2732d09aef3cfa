package images

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/docfields"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/plancheck"
)

// aPNG is a picture of one pixel in base64.
const aPNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func planOf(t *testing.T, r *Request) *prompt.Plan {
	t.Helper()
	if apiErr := r.Encode(); apiErr != nil {
		t.Fatal(apiErr)
	}
	p, apiErr := r.Plan(prompt.Options{})
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	plancheck.Check(t, p)
	return p
}

// TestGeneration checks what Codex is asked for a picture.
func TestGeneration(t *testing.T) {
	r, apiErr := DecodeGeneration([]byte(`{"prompt":"A cat, \"so\"","model":"m","n":3,"size":"1536x1024","background":"opaque","quality":"high",` +
		`"output_format":"png","response_format":"b64_json","style":null,"moderation":"auto","user":"me","other":{}}`))
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	p := planOf(t, r)
	if !p.Picture || p.Choices != 3 || p.Thread.Model != "m" || p.Thread.Config.Effort() != "low" || len(p.Thread.DynamicTools)+len(p.History) > 0 {
		t.Errorf("the plan is %+v", p)
	}
	if !strings.Contains(string(p.Thread.Config.Fixed), `"image_generation":true`) || len(p.Thread.Environments) > 0 || p.Thread.Environments == nil {
		t.Errorf("the thread is %+v", p.Thread)
	}
	if got := p.Turn.Input; len(got) != 1 || got[0].Text != "A cat, \"so\"\n\nThe picture is landscape, 1536 by 1024 pixels." {
		t.Errorf("the input is %q", got)
	}
	if !strings.Contains(*p.Thread.BaseInstructions, "Set transparent_background to false.") {
		t.Errorf("the instructions are %q", *p.Thread.BaseInstructions)
	}
	if got := fmt.Sprint(p.Ignored); got != "[size quality]" {
		t.Errorf("ignored: %s", got)
	}
	other, apiErr := DecodeGeneration([]byte(`{"prompt":"A cat"}`))
	if apiErr != nil || other.Choices() != 1 || planOf(t, other).Turn.Input[0].Text != "A cat" {
		t.Error("a prompt alone:", other, apiErr)
	}
}

// TestRefused checks the requests that are refused.
func TestRefused(t *testing.T) {
	url := `{"image_url":"data:image/png;base64,` + aPNG + `"}`
	for _, c := range []struct {
		edit              bool
		body, param, code string
	}{
		{false, `{}`, "prompt", "missing_required_parameter"},
		{false, `{"prompt":""}`, "prompt", "invalid_value"},
		{false, `{"prompt":"` + strings.Repeat("ä", maxPrompt+1) + `"}`, "prompt", "invalid_value"},
		{false, `{"prompt":"x","n":0}`, "n", "invalid_value"},
		{false, `{"prompt":"x","n":11}`, "n", "invalid_value"},
		{false, `{"prompt":"x","size":"large"}`, "size", "invalid_value"},
		{false, `{"prompt":"x","background":"red"}`, "background", "invalid_value"},
		{false, `{"prompt":"x","response_format":"url"}`, "response_format", "unsupported_parameter"},
		{false, `{"prompt":"x","output_format":"jpeg"}`, "output_format", "unsupported_parameter"},
		{false, `{"prompt":"x","quality":3}`, "quality", "invalid_type"},
		{false, `{"prompt":"x","images":[` + url + `]}`, "images", "invalid_value"},
		{true, `{"prompt":"x"}`, "image", "missing_required_parameter"},
		{true, `{"prompt":"x","images":[` + url + `],"mask":{}}`, "mask", "unsupported_parameter"},
		{true, `{"prompt":"x","images":[{"file_id":"file-1"}]}`, "images[0].file_id", "unsupported_parameter"},
		{true, `{"prompt":"x","images":[{"image_url":"data:image/png;base64,AAAA"}]}`, "images[0].image_url", "invalid_value"},
		{true, `{"prompt":"x","images":[` + strings.Repeat(url+",", maxInputs) + url + `]}`, "images", "invalid_value"},
	} {
		decode := DecodeGeneration
		if c.edit {
			decode = func(body []byte) (*Request, *apierror.Error) { return DecodeEdit("application/json", body) }
		}
		_, apiErr := decode([]byte(c.body))
		if apiErr == nil || apiErr.Param != c.param || string(apiErr.Code) != c.code || apiErr.Status != 400 {
			t.Errorf("%.100s: %+v", c.body, apiErr)
		}
	}
	r, apiErr := DecodeEdit("application/json", []byte(`{"prompt":"x","images":[`+url+`,{"image_url":"https://example.com/a.png"}]}`))
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	if _, apiErr := r.Plan(prompt.Options{}); apiErr == nil || apiErr.Param != "images[1].image_url" || r.ImageParam("https://example.com/a.png") != apiErr.Param {
		t.Errorf("an image elsewhere: %+v", apiErr)
	}
}

func form(t *testing.T, name string, pictures int, fields ...string) (contentType string, body []byte) {
	t.Helper()
	picture, err := base64.StdEncoding.DecodeString(aPNG)
	must.OK(t, err)
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	for range pictures {
		file, err := w.CreateFormFile(name, "a.png")
		if err == nil {
			_, err = file.Write(picture)
		}
		must.OK(t, err)
	}
	for _, one := range fields {
		name, value, _ := strings.Cut(one, "=")
		must.OK(t, w.WriteField(name, value))
	}
	must.OK(t, w.Close())
	return w.FormDataContentType(), form.Bytes()
}

// TestForm checks forms with the pictures to edit.
func TestForm(t *testing.T) {
	for _, name := range []string{"image", "image[]"} {
		media, body := form(t, name, 2, "prompt=Say \"hi\"", "n=2", "stream=true", "background=transparent", "user=me")
		r, apiErr := DecodeEdit(media, append([]byte("preamble\r\n"), body...))
		if apiErr != nil {
			t.Fatal(apiErr)
		}
		if size := r.Encoded(); size != int64(2*(len(aPNG)+2)) {
			t.Errorf("they take %d bytes", size)
		}
		p := planOf(t, r)
		in := p.Turn.Input
		if len(in) != 3 || in[0].URL != "data:image/png;base64,"+aPNG || in[1].URL != in[0].URL || in[2].Text != `Say "hi"` || p.Choices != 2 || !p.Stream {
			t.Errorf("%s: the input is %.300v", name, in)
		}
		if !strings.Contains(*p.Thread.BaseInstructions, "Set num_last_images_to_include to 2") {
			t.Errorf("the instructions are %q", *p.Thread.BaseInstructions)
		}
	}
	for fields, want := range map[string]string{
		"prompt=x;mask=y":              "mask",
		"prompt=x;n=many":              "n",
		"prompt=x;images=y":            "images",
		"n=1":                          "prompt",
		"prompt=x;response_format=url": "response_format",
	} {
		media, body := form(t, "image", 1, strings.Split(fields, ";")...)
		if _, apiErr := DecodeEdit(media, body); apiErr == nil || apiErr.Param != want {
			t.Errorf("%s: %+v", fields, apiErr)
		}
	}
	if media, body := form(t, "image", maxInputs+1, "prompt=x"); true {
		if _, apiErr := DecodeEdit(media, body); apiErr == nil || apiErr.Param != "image" {
			t.Errorf("too many: %+v", apiErr)
		}
	}
	r, apiErr := DecodeEdit("multipart/form-data; boundary=b", []byte("--b\r\nContent-Disposition: form-data; name=image\r\n\r\nno picture\r\n--b\r\nContent-Disposition: form-data; name=prompt\r\n\r\nx\r\n--b--\r\n"))
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	if apiErr := r.Encode(); apiErr == nil || apiErr.Param != "image[0]" {
		t.Errorf("no picture: %+v", apiErr)
	}
}

// FuzzForm splits whatever a body may have. What is accepted has the parts that the reader of the
// standard library finds.
func FuzzForm(f *testing.F) {
	for _, body := range []string{
		"", "--b--", "--b\r\n\r\n", "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b--", "x\r\n--b \t\r\nContent-Disposition: form-data; name=\"a\"\r\nX: y\r\n\r\n\r\n--b\r\n",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		parts, err := splitForm(body, "b")
		if err != nil {
			return
		}
		other := multipart.NewReader(bytes.NewReader(body), "b")
		for _, part := range parts {
			same, err := other.NextRawPart()
			if err != nil {
				t.Fatalf("%q: the part %+v: %v", body, part, err)
			}
			content, err := io.ReadAll(same)
			if err != nil || same.FormName() != part.name || !bytes.Equal(content, part.content) {
				t.Errorf("%q has a part %+v, or %s with %q: %v", body, part, same.FormName(), content, err)
			}
		}
		if part, err := other.NextRawPart(); err == nil {
			t.Errorf("%q has a part more: %+v", body, part)
		}
	})
}

// FuzzDecode reads whatever a body in JSON may have: what is accepted can be planned.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"prompt":"x","n":2,"size":"1024x1024","background":"auto","stream":true}`))
	f.Add([]byte(`{"prompt":"\ud800","images":[{"image_url":"data:image/png;base64,` + aPNG + `"}],"images":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, decode := range []func([]byte) (*Request, *apierror.Error){
			DecodeGeneration, func(body []byte) (*Request, *apierror.Error) { return DecodeEdit("application/json", body) },
		} {
			r, apiErr := decode(body)
			if apiErr != nil {
				continue
			}
			p, apiErr := r.Plan(prompt.Options{})
			if apiErr != nil {
				continue // an image elsewhere
			}
			plancheck.Check(t, p)
			if !p.Picture || p.Choices < 1 || p.Choices > maxPictures || len(p.Turn.Input) < 1 || len(p.Turn.Input) > maxInputs+1 {
				t.Errorf("%s: %+v", body, p)
			}
		}
	})
}

// TestReadersAreDocumented looks for each field that is read in the tables of fields.
func TestReadersAreDocumented(t *testing.T) {
	docfields.Read(t, "../../docs/images.md", "## Requests", readers)
}
