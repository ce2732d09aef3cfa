package demomodel

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clients ask for titles, tags and the like of a conversation, with the conversation in the question, or
// in what was said before.
var (
	titleAsked = regexp.MustCompile(`(?i)\b(title|headline|name)\b.{0,60}\b(generator|conversation|chat|session|thread|message)|(generate|create|write|suggest|provide|give|return|output|respond with)\b[^.\n]{0,80}\b(title|headline)s?\b|give (this|the) (conversation|chat) a name|thread title`)
	quotedChat = regexp.MustCompile(`(?is)(?:<chat_history>|### chat history:|conversation:|<conversation>|<session>|<message>)(.*)`)
	speaker    = regexp.MustCompile(`(?i)^\W*(user|human|you)\W*:\s*`)
	// memberAsked is the name of a member of the JSON that a question shows as an example.
	memberAsked = regexp.MustCompile(`"(title|tags|follow_ups|queries|isNewTopic|text)"\s*:`)
)

// housekeeping answers what clients ask on their own, shortly and in the form that they read.
func housekeeping(q question) (string, bool) {
	asked := q.text
	if len(asked) > 20*maxEnds {
		asked = ends(asked)
	}
	told := q.instructions()
	isTitle := titleAsked.MatchString(firstBytes(asked)) && len(q.text) > 30 || titleAsked.MatchString(told) && !strings.Contains(told, "tools")
	form := memberAsked.FindAllStringSubmatch(asked+"\n"+told, -1)
	if !isTitle && !strings.HasPrefix(asked, "### Task") { // of Open WebUI
		return "", false
	}
	title := q.title()
	if len(form) == 0 {
		return title, true
	}
	members := make(map[string]any)
	for _, match := range form {
		members[match[1]] = map[string]any{
			"title": title, "tags": titleTags(title), "isNewTopic": true, "text": "", "queries": []string{},
			"follow_ups": []string{"Can you show that in a table?", "Can you explain it with an example?", "What should I read next?"},
		}[match[1]]
	}
	text, _ := json.Marshal(members) // texts and lists of them alone
	return string(text), true
}

func firstBytes(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxEnds)], "") }

// title returns some words that name the conversation: its first question's.
func (q question) title() string {
	about := q.text
	if match := quotedChat.FindStringSubmatch(about); match != nil {
		about = match[1]
	} else if earlier := q.earlier(); len(earlier) > 0 && titleAsked.MatchString(firstBytes(q.text)) {
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

// titleTags returns the words of a title that may be tags.
func titleTags(title string) []string {
	tags := slices.DeleteFunc(strings.Fields(title), func(word string) bool { return len(word) < 4 })
	return append([]string{"General"}, tags[:min(len(tags), 2)]...)
}
