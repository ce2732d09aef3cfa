package scriptedmodel

import "encoding/json"

// event is the union of all events of a stream. Pointers distinguish members that
// are zero or empty from absent ones.
type event struct {
	Type           string    `json:"type"`
	SequenceNumber int       `json:"sequence_number"`
	Response       *response `json:"response,omitempty"`
	ItemID         string    `json:"item_id,omitempty"`
	OutputIndex    *int      `json:"output_index,omitempty"`
	ContentIndex   *int      `json:"content_index,omitempty"`
	SummaryIndex   *int      `json:"summary_index,omitempty"`
	Item           any       `json:"item,omitempty"`
	Part           any       `json:"part,omitempty"`
	Name           string    `json:"name,omitempty"`
	Delta          *string   `json:"delta,omitempty"`
	Text           *string   `json:"text,omitempty"`
	Arguments      *string   `json:"arguments,omitempty"`
	Logprobs       *[]any    `json:"logprobs,omitempty"`

	AnnotationIndex *int `json:"annotation_index,omitempty"`
	Annotation      any  `json:"annotation,omitempty"`
}

// response is the response object in the first and last events of a stream.
type response struct {
	ID                string            `json:"id"`
	Object            string            `json:"object"`
	CreatedAt         int64             `json:"created_at"` // Unix seconds
	Status            string            `json:"status"`
	Error             *responseError    `json:"error"`
	IncompleteDetails *incompleteReason `json:"incomplete_details"`
	Instructions      *string           `json:"instructions"`
	Model             string            `json:"model"`
	Tools             []json.RawMessage `json:"tools"`
	Output            []any             `json:"output"`
	ParallelToolCalls bool              `json:"parallel_tool_calls"`
	Metadata          map[string]string `json:"metadata"`
	ToolChoice        json.RawMessage   `json:"tool_choice"`
	Temperature       float64           `json:"temperature"`
	TopP              float64           `json:"top_p"`
	Usage             *wireUsage        `json:"usage"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incompleteReason struct {
	Reason string `json:"reason"`
}

type wireUsage struct {
	InputTokens        int           `json:"input_tokens"`
	InputTokensDetails inputDetails  `json:"input_tokens_details"`
	OutputTokens       int           `json:"output_tokens"`
	OutputDetails      outputDetails `json:"output_tokens_details"`
	TotalTokens        int           `json:"total_tokens"`
}

type inputDetails struct {
	CachedTokens     int `json:"cached_tokens"`
	CacheWriteTokens int `json:"cache_write_tokens"`
}

type outputDetails struct {
	ReasoningTokens int `json:"reasoning_tokens"`
}

func (u Usage) wire() *wireUsage {
	return &wireUsage{
		InputTokens:        u.Input,
		InputTokensDetails: inputDetails{u.Cached, u.CacheWrite},
		OutputTokens:       u.Output,
		OutputDetails:      outputDetails{u.Reasoning},
		TotalTokens:        u.Input + u.Output,
	}
}

type messageItem struct {
	ID      string     `json:"id"`
	Type    string     `json:"type"`
	Status  string     `json:"status"`
	Role    string     `json:"role"`
	Content []textPart `json:"content"`
}

type textPart struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Annotations []any  `json:"annotations"`
	Logprobs    []any  `json:"logprobs"`
}

func newTextPart(text string) textPart {
	return textPart{Type: "output_text", Text: text, Annotations: []any{}, Logprobs: []any{}}
}

// citation is an annotation. Its indexes count characters.
type citation struct {
	Type  string `json:"type"`
	URL   string `json:"url"`
	Title string `json:"title"`
	Start int    `json:"start_index"`
	End   int    `json:"end_index"`
}

type searchItem struct {
	ID     string        `json:"id"`
	Type   string        `json:"type"`
	Status string        `json:"status"`
	Action *searchAction `json:"action,omitempty"`
}

type searchAction struct {
	Type  string `json:"type"`
	Query string `json:"query"`
}

type callItem struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Status    string `json:"status"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type reasoningItem struct {
	ID               string        `json:"id"`
	Type             string        `json:"type"`
	Status           string        `json:"status"`
	Summary          []summaryPart `json:"summary"`
	EncryptedContent *string       `json:"encrypted_content"`
}

type summaryPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// newResponse returns the response object of the first events for req.
func newResponse(id string, createdAt int64, req Request) *response {
	r := &response{
		ID:                id,
		Object:            "response",
		CreatedAt:         createdAt,
		Status:            "in_progress",
		Model:             req.Model,
		Tools:             make([]json.RawMessage, 0, len(req.Tools)),
		Output:            []any{},
		ParallelToolCalls: req.ParallelToolCalls == nil || *req.ParallelToolCalls,
		Metadata:          map[string]string{},
		ToolChoice:        req.ToolChoice,
		Temperature:       1,
		TopP:              1,
	}
	for _, t := range req.Tools {
		r.Tools = append(r.Tools, t.Raw)
	}
	if req.Instructions != "" {
		r.Instructions = &req.Instructions
	}
	if len(r.ToolChoice) == 0 {
		r.ToolChoice = json.RawMessage(`"auto"`)
	}
	return r
}
