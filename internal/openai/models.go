package openai

import (
	"strconv"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// modelOwner is the owned_by of every model: Codex does not say whose it is.
const modelOwner = "codex"

// ModelsList returns the body of GET /v1/models (ListModelsResponse): all models
// that are not hidden, in their order. Codex does not say when a model was made;
// created, in Unix seconds, stands for all.
func ModelsList(models []codexrpc.Model, created int64) []byte {
	dst := []byte(`{"object":"list","data":[`)
	first := true
	for _, m := range models {
		if m.Hidden {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendModel(dst, m.ID, created)
	}
	return append(dst, `]}`...)
}

// ModelObject returns the body of GET /v1/models/{id} (Model), also of a hidden
// model; false if there is no such model.
func ModelObject(models []codexrpc.Model, id string, created int64) ([]byte, bool) {
	for _, m := range models {
		if m.ID == id {
			return appendModel(nil, id, created), true
		}
	}
	return nil, false
}

func appendModel(dst []byte, id string, created int64) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, id)
	dst = append(dst, `,"object":"model","created":`...)
	dst = strconv.AppendInt(dst, created, 10)
	dst = append(dst, `,"owned_by":"`...)
	dst = append(dst, modelOwner...)
	return append(dst, `"}`...)
}
