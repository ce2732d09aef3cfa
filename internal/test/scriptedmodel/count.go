package scriptedmodel

import (
	"cmp"
	"hash/maphash"
	"sync"

	"github.com/tidwall/gjson"
)

const (
	// textsPerToken is how many bytes of text count as a token.
	textsPerToken = 4
	// imageTexts is how many bytes of text an image counts as.
	imageTexts = 4000
	// keptPrefixes bounds the remembered beginnings of requests, twice.
	keptPrefixes = 1 << 16
)

// counter counts the tokens of requests, and how many of them a recent request began with, too.
type counter struct {
	mu     sync.Mutex
	window int
	seed   maphash.Seed
	// sent are hashes of the beginnings of recent requests. Those of older ones are in the second map.
	sent [2]map[uint64]bool
}

// SetWindow lets the server count tokens and refuse requests that have more than these, as the back
// end of a plan does, with context_length_exceeded. A script without usage then reports the counts:
// [Request.Tokens], [Request.Cached], and a quarter of the bytes of its output. 0 ends it.
func (s *Server) SetWindow(tokens int) {
	s.counter.mu.Lock()
	defer s.counter.mu.Unlock()
	s.counter.window = tokens
}

// count counts the tokens of a request, if there is a window: a quarter of the bytes of its texts.
// It compares the instructions, all tools, and each item with those of recent requests that have the
// same prompt_cache_key, since others may be asked of another machine with another cache.
func (c *counter) count(req *Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if req.Window = c.window; c.window == 0 {
		return
	}
	body := gjson.ParseBytes(req.Body)
	texts, hash := 0, c.sum(body.Get("prompt_cache_key"))
	var hashes []uint64
	add := func(part gjson.Result) {
		eachText("", part, func(name, text string) { texts += size(name, text) })
		hash = (hash + c.sum(part)) * 0x9e3779b97f4a7c15 // depends on the order of parts, not of members
		hashes = append(hashes, hash)
		if c.sent[0][hash] || c.sent[1][hash] {
			req.Cached = texts / textsPerToken
		}
	}
	add(body.Get("instructions"))
	add(body.Get("tools"))
	items, sentItems := 0, len(req.Input)-req.NewItems
	body.Get("input").ForEach(func(_, item gjson.Result) bool {
		add(item)
		if items++; req.PreviousResponseID != "" && items <= sentItems {
			req.Cached = texts / textsPerToken // the server has the history before
		}
		return true
	})
	if req.Tokens = texts / textsPerToken; req.Tokens <= c.window {
		c.remember(hashes)
	}
}

func (c *counter) remember(hashes []uint64) {
	if len(c.sent[0])+len(hashes) > keptPrefixes || c.sent[0] == nil {
		c.sent = [2]map[uint64]bool{make(map[uint64]bool), c.sent[0]}
	}
	for _, hash := range hashes {
		c.sent[0][hash] = true
	}
}

// sum returns a hash of all texts below a value, with the names of their members. A content that is
// a text has that of a list with this text.
func (c *counter) sum(value gjson.Result) (sum uint64) {
	eachText("", value, func(name, text string) {
		switch {
		case name == "type" && (text == "input_text" || text == "output_text"):
			return
		case name == "content":
			name = "text"
		}
		var h maphash.Hash
		h.SetSeed(c.seed)
		_, _ = h.WriteString(name + "=")
		_, _ = h.WriteString(text)
		sum += h.Sum64()
	})
	return sum
}

// size returns how many bytes a text counts as.
func size(name, text string) int {
	switch name {
	case "type", "role":
		return 0
	case "encrypted_content":
		return len(text) / 6
	case "image_url":
		return imageTexts
	}
	return len(text)
}

// eachText calls do for each string below a value, and the name of its member. It leaves out what a
// model does not read: identities, also of calls, and what Codex adds for itself.
func eachText(name string, value gjson.Result, do func(name, text string)) {
	switch {
	case name == "id" || name == "call_id" || name == "status" || name == "internal_chat_message_metadata_passthrough":
	case value.Type == gjson.String:
		do(name, value.Str)
	case value.Type == gjson.JSON:
		value.ForEach(func(member, value gjson.Result) bool {
			eachText(cmp.Or(member.Str, name), value, do)
			return true
		})
	}
}

// counted returns a script's answer to a counted request: its usage, or a failure if that is too long.
func counted(req Request, script Script) Script {
	switch {
	case req.Window == 0:
	case req.Tokens > req.Window:
		return Script{End: Failed{Code: "context_length_exceeded", Message: failureMessages["context_length_exceeded"]}}
	case script.Usage == nil:
		script.Usage = &Usage{Input: req.Tokens, Cached: req.Cached, Output: outputTokens(script.Output)}
	}
	return script
}

func outputTokens(output []Output) int {
	texts := textsPerToken // for the end
	for _, out := range output {
		switch out := out.(type) {
		case Say:
			texts += len(out)
		case Cite:
			texts += len(out.Text)
		case Reason:
			texts += len(out)
		case Call:
			texts += len(out.Name) + len(out.Arguments)
		}
	}
	return texts / textsPerToken
}
