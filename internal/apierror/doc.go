// Package apierror is what the API answers when a request fails: an [Error] in
// OpenAI's shape, with its status, type, code and advice about retrying.
//
// [From] makes one of every failure of Codex, of a turn and of the way there. The
// other functions make those of the server itself.
package apierror
