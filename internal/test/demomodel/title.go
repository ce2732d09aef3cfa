package demomodel

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clients ask for a title of a conversation, with the conversation in the question, or in what was said
// before.
var (
	titleAsked = regexp.MustCompile(`(?i)\b(title|headline|name)\b.{0,60}\b(generator|conversation|chat|session|thread|message)|(generate|create|write|suggest|provide|give|return|output|respond with)\b[^.\n]{0,80}\b(title|headline)s?\b|give (this|the) (conversation|chat) a name|thread title`)
	quotedChat = regexp.MustCompile(`(?is)(?:<chat_history>|chat history:|conversation:|<conversation>|<session>|<message>)(.*)`)
	speaker    = regexp.MustCompile(`(?i)^\W*(user|human|you)\W*:\s*`)
)

// titleAnswer answers clients that ask for a title, or, as Open WebUI does with "### Task", for what
// needs a real model and can be left out.
func titleAnswer(q question) string {
	told := q.instructions()
	if strings.HasPrefix(q.text, "### Task") || len(q.text) > 30 && titleAsked.MatchString(q.begin()) ||
		titleAsked.MatchString(told) && !strings.Contains(told, "tools") {
		return q.title()
	}
	return ""
}

// title returns some words that name the conversation: its first question's.
func (q question) title() string {
	about := q.text
	if match := quotedChat.FindStringSubmatch(about); match != nil {
		about = match[1]
	} else if earlier := q.earlier(); len(earlier) > 0 && titleAsked.MatchString(q.begin()) {
		about = earlier[0]
	}
	for line := range strings.Lines(about) {
		if line = strings.TrimSpace(speaker.ReplaceAllString(line, "")); strings.ContainsFunc(line, unicode.IsLetter) && line[0] != '<' {
			about = line
			break
		}
	}
	topic := strings.TrimSuffix(newQuestion(q.req, about).topic(), "…")
	if topic == "" {
		return "A Conversation"
	}
	first, size := utf8.DecodeRuneInString(topic)
	return string(unicode.ToUpper(first)) + topic[size:]
}
