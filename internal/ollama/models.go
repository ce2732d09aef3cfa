package ollama

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Version is the release of Ollama whose API this server implements. Clients refuse older releases.
const Version = "0.17.4"

// latestTag is the tag that this server appends, in lists, to the names of models without a tag.
// Clients may append it to names, too.
const latestTag = ":latest"

// Bare returns a name without the tag latest. tagged reports whether the name has this tag.
func Bare(name string) (bare string, tagged bool) { return strings.CutSuffix(name, latestTag) }

// Model describes a model to clients.
type Model struct {
	Name     string // the name by which clients ask for the model
	Title    string // a name for people; empty: the same as Name
	Window   int    // the most tokens that the model reads and writes together; 0: not known
	Blind    bool   // the model reads no images
	Modified time.Time
}

// unknownWindow is the context window, in tokens, that answers give for a model whose Window is 0.
const unknownWindow = 128_000

func (m *Model) window() int { return cmp.Or(m.Window, unknownWindow) }

// taggedName returns the name of the model in lists, which always has a tag.
func (m *Model) taggedName() string {
	if strings.Contains(m.Name, ":") {
		return m.Name
	}
	return m.Name + latestTag
}

func (m *Model) capabilities() []string {
	all := []string{"completion", "tools", "thinking"}
	if !m.Blind {
		all = append(all, "vision")
	}
	return all
}

// details is the ModelDetails of Ollama's API. Empty members are not left out, since clients need
// all of them.
type details struct {
	Parent       string   `json:"parent_model"`
	Format       string   `json:"format"`
	Family       string   `json:"family"`
	Families     []string `json:"families"`
	Parameters   string   `json:"parameter_size"`
	Quantization string   `json:"quantization_level"`
	Window       int      `json:"context_length"`
}

// architecture is the architecture of every model in answers. The name of the member context_length
// in model_info begins with it.
const architecture = "codex"

func (m *Model) details() details {
	return details{Family: architecture, Families: []string{architecture}, Window: m.window()}
}

func (m *Model) modified() string { return m.Modified.UTC().Format(timeFormat) }

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

// Tags returns the body of GET /api/tags.
func Tags(models []Model) []byte {
	all := []listedModel{}
	for i := range models {
		m := &models[i]
		digest := sha256.Sum256([]byte(m.taggedName()))
		all = append(all, listedModel{m.taggedName(), m.taggedName(), m.modified(), 0, hex.EncodeToString(digest[:]), m.details(), m.capabilities()})
	}
	return wirejson.Append(nil, struct {
		Models []listedModel `json:"models"`
	}{all})
}

// template is a prompt template in the answer of POST /api/show. Clients look into it to find out
// what a model can do.
const template = "{{ .System }}{{ .Tools }}{{ .Prompt }}"

// Show returns the body of POST /api/show.
func Show(m *Model) []byte {
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
		Parameters: fmt.Sprintf("num_ctx %d", m.window()),
		Template:   template,
		Details:    m.details(),
		Info: map[string]any{
			"general.architecture":           architecture,
			"general.basename":               cmp.Or(m.Title, m.Name),
			architecture + ".context_length": m.window(),
		},
		Capabilities: m.capabilities(),
		Modified:     m.modified(),
	})
}

// DecodeName reads the name of a model from a request about the model. The member is model, or name
// in requests of older clients.
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

// The bodies of the answers that are always the same.
var (
	// Ready answers GET /.
	Ready = []byte("Ollama is running")
	// VersionBody answers GET /api/version.
	VersionBody = []byte(`{"version":"` + Version + `"}`)
	// NoneLoaded answers GET /api/ps: Codex loads no models.
	NoneLoaded = []byte(`{"models":[]}`)
	// Pulled answers POST /api/pull for a model that exists here.
	Pulled = []byte(`{"status":"success"}`)
)
