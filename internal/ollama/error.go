package ollama

import (
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// EncodeError encodes an error for Ollama's clients, which read only the message.
func EncodeError(e *apierror.Error, _ http.Header) (status int, body []byte) {
	return e.Status, errorJSON(e)
}

func errorJSON(e *apierror.Error) []byte {
	return append(wirejson.AppendString([]byte(`{"error":`), e.Message), '}')
}

// The classes of the errors of this API.
var (
	unreadableClass   = apierror.NewClass("invalid_tool_arguments", http.StatusBadGateway, 0)
	unsupportedClass  = apierror.NewClass(apierror.CodeUnsupportedParameter, http.StatusNotImplemented, apierror.Never)
	unchangeableClass = apierror.NewClass("models_unchangeable", http.StatusForbidden, 0)
)

// NoEmbeddings returns the error, with status 501, for a request for embeddings.
func NoEmbeddings() *apierror.Error {
	return unsupportedClass.New("this model does not support embeddings")
}

// Unchangeable returns the error, with status 403, for a request to change the models.
func Unchangeable() *apierror.Error {
	return unchangeableClass.New("the models of this server cannot be changed")
}
