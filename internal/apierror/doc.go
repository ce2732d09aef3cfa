// Package apierror defines the errors of the API: an [Error] has OpenAI's shape, an
// HTTP status and advice about retrying.
//
// [From] converts failures of Codex and of turns. The other functions make the errors
// of this server.
package apierror
