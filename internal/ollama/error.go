package ollama

import (
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// EncodeError encodes an error for Ollama's clients, which read only the message.
func EncodeError(e *apierror.Error, _ http.Header) (status int, body []byte) {
	return e.Status, appendError(nil, e)
}

func appendError(dst []byte, e *apierror.Error) []byte {
	return append(wirejson.AppendString(append(dst, `{"error":`...), e.Message), '}')
}

// The classes of the errors of this API.
var (
	unreadableClass   = apierror.NewClass("invalid_tool_arguments", http.StatusBadGateway, 0)
	unsupportedClass  = apierror.NewClass(apierror.CodeUnsupportedParameter, http.StatusNotImplemented, apierror.Never)
	unchangeableClass = apierror.NewClass("models_unchangeable", http.StatusForbidden, 0)
)

// unreadableArguments returns the error for a call whose arguments argumentsObject refuses: they are not an
// object that clients of this API can read.
func unreadableArguments(tool string) *apierror.Error {
	return unreadableClass.Newf("The model has called the tool %.128q with arguments that are not a JSON object, or are nested too deeply. Please try again.", tool)
}

// NoEmbeddings returns the error, with status 501, for a request for embeddings.
func NoEmbeddings() *apierror.Error {
	return unsupportedClass.New("this model does not support embeddings")
}

// Unchangeable returns the error, with status 403, for a request to change the models.
func Unchangeable() *apierror.Error {
	return unchangeableClass.New("the models of this server cannot be changed")
}
