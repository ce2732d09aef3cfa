package ollama

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Version is the release of Ollama whose API this server implements. Clients refuse older releases.
const Version = "0.17.4"

// latestTag is appended to names without a tag in lists of models. Clients may append it to any name.
const latestTag = ":latest"

// Bare returns a name without the tag latest. tagged reports whether the name has this tag.
func Bare(name string) (bare string, tagged bool) { return strings.CutSuffix(name, latestTag) }

// unknownWindow is the context window, in tokens, that answers give for a model whose Window is 0.
const unknownWindow = 128_000

func window(m *api.Model) int { return cmp.Or(m.Window, unknownWindow) }

// taggedName returns the name that a model has in lists. This name always has a tag.
func taggedName(m *api.Model) string {
	if strings.Contains(m.Name, ":") {
		return m.Name
	}
	return m.Name + latestTag
}

func capabilities(m *api.Model) []string {
	all := []string{"completion", "tools", "thinking"}
	if !m.Blind {
		all = append(all, "vision")
	}
	return all
}

// details is Ollama's ModelDetails. Empty members are not left out: clients need all of them.
type details struct {
	Parent       string   `json:"parent_model"`
	Format       string   `json:"format"`
	Family       string   `json:"family"`
	Families     []string `json:"families"`
	Parameters   string   `json:"parameter_size"`
	Quantization string   `json:"quantization_level"`
	Window       int      `json:"context_length"`
}

// architecture is reported for every model. It also begins the name of context_length in model_info.
const architecture = "codex"

func detailsOf(m *api.Model) details {
	return details{Family: architecture, Families: []string{architecture}, Window: window(m)}
}

func modified(m *api.Model) string { return m.Modified.UTC().Format(timeFormat) }

// listedModel is the ListModelResponse of Ollama's API.
type listedModel struct {
	Name         string   `json:"name"`
	Model        string   `json:"model"`
	Modified     string   `json:"modified_at"`
	Size         int64    `json:"size"`
	Digest       string   `json:"digest"`
	Details      details  `json:"details"`
	Capabilities []string `json:"capabilities"`
}

// tags answers GET /api/tags.
func tags(c api.Call) ([]byte, *apierror.Error) {
	models, apiErr := c.Models()
	if apiErr != nil {
		return nil, apiErr
	}
	all := []listedModel{}
	for _, name := range models.Names() {
		m, _ := models.Find(name)
		digest := sha256.Sum256([]byte(taggedName(&m)))
		all = append(all, listedModel{taggedName(&m), taggedName(&m), modified(&m), 0, hex.EncodeToString(digest[:]), detailsOf(&m), capabilities(&m)})
	}
	return append(wirejson.Append([]byte(`{"models":`), all), '}'), nil
}

// template is the prompt template that POST /api/show returns. It shows clients what a model can do.
const template = "{{ .System }}{{ .Tools }}{{ .Prompt }}"

// Show returns the body of POST /api/show.
func Show(m *api.Model) []byte {
	return wirejson.Append(nil, struct {
		License      string         `json:"license"`
		Modelfile    string         `json:"modelfile"`
		Parameters   string         `json:"parameters"`
		Template     string         `json:"template"`
		Details      details        `json:"details"`
		Info         map[string]any `json:"model_info"`
		Capabilities []string       `json:"capabilities"`
		Modified     string         `json:"modified_at"`
	}{
		Parameters: fmt.Sprintf("num_ctx %d", window(m)),
		Template:   template,
		Details:    detailsOf(m),
		Info: map[string]any{
			"general.architecture":           architecture,
			"general.basename":               cmp.Or(m.Title, m.Name),
			architecture + ".context_length": window(m),
		},
		Capabilities: capabilities(m),
		Modified:     modified(m),
	})
}

// DecodeName reads the name in a request about a model: the member model or, in older clients, name.
func DecodeName(body []byte) (string, *apierror.Error) {
	name, apiErr := field.Body(body, new(string), func(to *string, root wirejson.Value) *field.Error {
		var model, name wirejson.Value
		root.Pick(wirejson.Into("model", &model), wirejson.Into("name", &name))
		if !model.Given() || model.Is("") {
			model = name
		}
		f := field.NonEmpty(model).In("model")
		if f == nil {
			*to = model.Text()
		}
		return f
	})
	if apiErr != nil {
		return "", apiErr
	}
	return *name, nil
}
