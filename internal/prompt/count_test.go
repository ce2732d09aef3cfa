package prompt

import (
	"errors"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/tokens"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

func conversationOf(texts ...string) *Conversation {
	c := new(Conversation)
	for _, text := range texts {
		c.Messages = append(c.Messages, Message{Role: RoleUser, Text: wirejson.Value(wirejson.AppendString(nil, text))})
	}
	return c
}

// TestCountTokens checks that a count pauses after each 64 KiB, also of short texts, and ends with the error of
// a pause.
func TestCountTokens(t *testing.T) {
	words := strings.Repeat("some words and 123 numbers; ", 8*countedBetweenPauses/28)
	sixteen := make([]string, 3*countedBetweenPauses/16)
	for i := range sixteen {
		sixteen[i] = "sixteen letters."
	}
	stop := errors.New("stop")
	for name, c := range map[string]struct {
		texts  []string
		stopAt int
		pauses int
	}{
		"a long text":           {[]string{words}, 0, 7},
		"a pause with an error": {[]string{words}, 3, 3},
		"short texts":           {sixteen, 0, 3},
	} {
		pauses := 0
		n, err := conversationOf(c.texts...).CountTokens(func() error {
			if pauses++; pauses == c.stopAt {
				return stop
			}
			return nil
		})
		if pauses != c.pauses || (err == stop) != (c.stopAt > 0) {
			t.Errorf("%s: %v after %d pauses, want %d", name, err, pauses, c.pauses)
		}
		want := 0
		for _, text := range c.texts {
			want += tokens.Count(text) + messageTokens
		}
		if err == nil && n != want {
			t.Errorf("%s: %d tokens, want %d", name, n, want)
		}
	}
}

// TestEstimateTokens checks that a sample is counted, and that the rest has as many tokens for each byte.
func TestEstimateTokens(t *testing.T) {
	blanks, words := strings.Repeat(" ", 4000), strings.Repeat("one two ", 500)
	for name, c := range map[string]struct {
		texts  []string
		sample int
		want   int
	}{
		"nothing":             {nil, SampleBytes, 0},
		"all":                 {[]string{"one two", "three"}, SampleBytes, 3 + 2*messageTokens},
		"half of it":          {[]string{words, words}, 4000, 2*tokens.Count(words) + 2*messageTokens},
		"a part of a text":    {[]string{words}, 399, tokens.Count(words) + messageTokens},
		"the first is sample": {[]string{words, blanks}, 4000, 2*tokens.Count(words) + 2*messageTokens},
		"no sample":           {[]string{words}, 0, 1000 + messageTokens},
	} {
		got := conversationOf(c.texts...).EstimateTokens(c.sample)
		if got < c.want-2 || got > c.want+2 {
			t.Errorf("%s: %d tokens, want about %d", name, got, c.want)
		}
	}
}

// TestCountItems checks that items, whose contents are encrypted, count by their length, also in the ratio of
// an estimate.
func TestCountItems(t *testing.T) {
	words := strings.Repeat("one two ", 1000)
	c := conversationOf(words)
	c.Messages = append(c.Messages, Message{Role: RoleItem, Item: wirejson.Value(`{"type":"reasoning","encrypted_content":"` + strings.Repeat("qZ4_", 3000) + `"}`)})
	summary := NewSummary(words[:400])
	c.Messages = append(c.Messages, summary) // this is a text
	want := tokens.Count(words) + len(c.Messages[1].Item)/itemBytesPerToken + tokens.Count(string(summary.Item)) + 3*messageTokens
	if n, err := c.CountTokens(func() error { return nil }); err != nil || n != want {
		t.Errorf("%d tokens, %v, want %d", n, err, want)
	}
	if n := c.EstimateTokens(4000); n < want-100 || n > want+100 {
		t.Errorf("an estimate of %d tokens, want %d", n, want)
	}
}
