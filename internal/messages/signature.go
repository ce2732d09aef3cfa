package messages

import (
	"cmp"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// signaturePrefix starts every signature; the 1 is the version of the form. Then come the id of a reasoning
// item, a dot, and the encrypted content of the item, which only the provider can read. The client keeps
// the signature, so this server need not store the reasoning.
const signaturePrefix = "codex-1."

func makeSignature(id, encrypted string) string { return signaturePrefix + id + "." + encrypted }

// parseSignature returns the id and the encrypted content in a signature. ok is false if makeSignature did
// not make the signature.
func parseSignature(signature string) (id, encrypted string, ok bool) {
	rest, ours := strings.CutPrefix(signature, signaturePrefix)
	if !ours {
		return "", "", false
	}
	id, encrypted, ok = strings.Cut(rest, ".")
	return id, encrypted, ok && encrypted != ""
}

// readThinkingBlock reads a thinking block. It leaves out a block if makeSignature did not make its
// signature, for example a block of another provider.
func (h *history) readThinkingBlock(b *rawBlock) *field.Error {
	text, signature := b.thinking, b.signature
	f := cmp.Or(field.Optional(wirejson.KindString, text).In("thinking"), field.Optional(wirejson.KindString, signature).In("signature"))
	if f != nil || !signature.Given() {
		return f
	}
	id, encrypted, ok := parseSignature(signature.Text())
	if !ok {
		return nil
	}
	item := append([]byte(nil), `{"type":"reasoning",`...)
	if id != "" {
		item = append(wirejson.AppendString(append(item, `"id":`...), id), ',')
	}
	item = append(item, `"summary":[`...)
	if text.Given() && len(text.RawText()) > 0 {
		item = append(append(append(item, `{"type":"summary_text","text":`...), text...), '}')
	}
	item = append(wirejson.AppendString(append(item, `],"encrypted_content":`...), encrypted), '}')
	return h.add(prompt.Message{Role: prompt.RoleItem, Item: item, Size: len(b.value) + len(item)})
}
