package replay

import (
	"encoding/json"
	"regexp"
	"strings"
)

// doubt returns why it says nothing that the replay differs from the recording, or nothing.
func (s *script) doubt(got *answer) string {
	refused := badRequest.MatchString(s.answer.status + s.answer.text)
	both := s.answer.text + got.text
	switch {
	case s.guess != "":
		return s.guess
	case len(s.body) == 0:
		return "what had come of its body is not recorded"
	case !s.head.Texts && !json.Valid(s.body):
		return "its body is no JSON, and what is wrong with it is not recorded"
	case !s.head.Texts && refused && !s.asked:
		return "its request was refused, and what is wrong with it is masked"
	case refused && !s.asked && strings.Contains(s.answer.text, "x-proxy-output-mode"):
		return "its header X-Proxy-Output-Mode was refused, and the value of that is masked"
	case s.head.Texts && s.code != "" && s.machine:
		return "an address or a path in Codex's message about the failure is masked"
	case !s.head.Texts && (stopSequences.Match(s.body) && stopped.MatchString(both) || tokenLimits.Match(s.body) && limited.MatchString(both)):
		return "max_tokens or a stop sequence may have ended the turn, and masked words have other tokens and endings"
	}
	return ""
}

var (
	// badRequest matches a status with which a request is refused because of what it has.
	badRequest = regexp.MustCompile(`"status": ?4(?:00|13|15|22)\b`)
	// tokenLimits and stopSequences match the fields of a request that end a turn because of its text.
	tokenLimits   = regexp.MustCompile(`"(?:max_tokens|max_completion_tokens|max_output_tokens|num_predict|stop_sequences)":`)
	stopSequences = regexp.MustCompile(`"stop": ?(?:\[ ?)?"`)
	// limited and stopped match how an answer without texts says that such a field has ended it. After a stop sequence,
	// Chat Completions and Ollama say the same as at the end of the model's answer.
	limited = regexp.MustCompile(`"(?:finish|done)_reason":"x{6}"|"stop_reason":"(?:xxx_x{6}|xxxx_x{8})"|"incomplete_details":\{"reason":"`)
	stopped = regexp.MustCompile(`"(?:finish|done)_reason":"x{4}"`)
	// machineParts matches what is masked in a message about a failure, also in a recording with texts.
	machineParts = regexp.MustCompile(`[@~]|(?:^|[\s"'(=:])/|\\\\|\d\.\d+\.\d|[a-z\]]:\d`)
)
