// Package usage keeps the accounts of what turns have cost and what became of
// their tool calls, for /v1/usage and /v1/usage/raw. It holds nothing that was
// said. Each user sees the own account alone.
package usage

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
)

// The bounds of a [Book].
const (
	maxUsers   = 1000 // accounts of their own; further users share one
	maxEntries = 1000 // turns that are kept for /v1/usage/raw, of all users
	maxName    = 200  // bytes of a model's name that are kept
)

// sharedAccount is that of the users beyond maxUsers.
const sharedAccount = "\x00others"

// Book keeps the accounts. It is safe for concurrent use.
type Book struct {
	since time.Time

	mu       sync.Mutex
	accounts map[string]*Account
	entries  []entry // a ring
	next     int     // where the next entry goes
}

// New returns an empty book.
func New() *Book {
	return &Book{since: time.Now(), accounts: make(map[string]*Account)}
}

// Account is the sum of a user's turns: the body of GET /v1/usage.
type Account struct {
	Object            string      `json:"object"` // "usage"
	Since             int64       `json:"since"`  // Unix time in seconds
	Requests          int64       `json:"requests"`
	Errors            int64       `json:"errors"`
	Tokens            Tokens      `json:"usage"`
	ToolCalls         ToolCalls   `json:"tool_calls"`
	ToolBufferMetrics ToolBuffers `json:"tool_buffer_metrics"`
}

// Tokens counts as OpenAI does (CompletionUsage).
type Tokens struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
	Cached     int64 `json:"cached_tokens"`    // of the prompt
	Reasoning  int64 `json:"reasoning_tokens"` // of the completion
}

// ToolCalls counts calls that clients got.
type ToolCalls struct {
	Total      int64 `json:"total"`
	Truncated  int64 `json:"truncated"`  // turns that had more calls than allowed
	Duplicates int64 `json:"duplicates"` // calls dropped as repeats
}

// ToolBuffers counts textual blocks (story 2.12, AC 4).
type ToolBuffers struct {
	Started  int64            `json:"tool_buffer_started"`
	Flushed  int64            `json:"tool_buffer_flushed"`
	Aborted  int64            `json:"tool_buffer_aborted"`
	ByReason map[string]int64 `json:"aborted_by_reason,omitempty"`
}

// Entry is one turn: an element of GET /v1/usage/raw.
type Entry struct {
	Time      int64  `json:"time"` // of its end, Unix time in seconds
	RequestID string `json:"request_id"`
	Choice    int    `json:"choice"`
	Model     string `json:"model"`
	Mode      string `json:"output_mode"`
	Stream    bool   `json:"stream"`
	Status    int    `json:"status"`
	Code      string `json:"code,omitempty"` // of the error
	Tokens    Tokens `json:"usage"`
	Calls     int    `json:"tool_call_count"`
	Truncated bool   `json:"tool_call_truncated"`
}

type entry struct {
	Entry
	user string
}

// TurnEnded enters a turn.
func (b *Book) TurnEnded(r gateway.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.account(r.User).add(r)
	e := entry{user: strings.Clone(r.User), Entry: newEntry(r)}
	if len(b.entries) < maxEntries {
		b.entries = append(b.entries, e)
		return
	}
	b.entries[b.next] = e
	b.next = (b.next + 1) % maxEntries
}

// account finds or opens a user's account.
func (b *Book) account(user string) *Account {
	a := b.accounts[user]
	if a == nil && len(b.accounts) >= maxUsers {
		user = sharedAccount
		a = b.accounts[user]
	}
	if a == nil {
		a = &Account{Object: "usage", Since: b.since.Unix()}
		b.accounts[strings.Clone(user)] = a
	}
	return a
}

func (a *Account) add(r gateway.Record) {
	a.Requests++
	if r.Status >= 400 {
		a.Errors++
	}
	a.Tokens.add(tokens(r))
	a.ToolCalls.Total += int64(r.Tools.Calls)
	a.ToolCalls.Duplicates += int64(r.Tools.Duplicates)
	if r.Tools.Truncated {
		a.ToolCalls.Truncated++
	}
	buffers := &a.ToolBufferMetrics
	buffers.Started += int64(r.Tools.Started)
	buffers.Flushed += int64(r.Tools.Flushed)
	for reason, n := range r.Tools.Aborted {
		if buffers.ByReason == nil {
			buffers.ByReason = make(map[string]int64)
		}
		buffers.Aborted += int64(n)
		buffers.ByReason[string(reason)] += int64(n)
	}
}

func (t *Tokens) add(u Tokens) {
	t.Prompt += u.Prompt
	t.Completion += u.Completion
	t.Total += u.Total
	t.Cached += u.Cached
	t.Reasoning += u.Reasoning
}

func tokens(r gateway.Record) Tokens {
	return Tokens{
		Prompt:     r.Usage.InputTokens,
		Completion: r.Usage.OutputTokens,
		Total:      r.Usage.TotalTokens,
		Cached:     r.Usage.CachedInputTokens,
		Reasoning:  r.Usage.ReasoningOutputTokens,
	}
}

func newEntry(r gateway.Record) Entry {
	return Entry{
		Time:      r.Time.Unix(),
		RequestID: strings.Clone(r.RequestID),
		Choice:    r.Choice,
		Model:     strings.ToValidUTF8(strings.Clone(r.Model[:min(len(r.Model), maxName)]), ""),
		Mode:      string(r.Mode),
		Stream:    r.Stream,
		Status:    r.Status,
		Code:      r.Code,
		Tokens:    tokens(r),
		Calls:     r.Tools.Calls,
		Truncated: r.Tools.Truncated,
	}
}

// Account returns a user's account. It is the caller's.
func (b *Book) Account(user string) Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.accounts[user]
	if a == nil {
		return Account{Object: "usage", Since: b.since.Unix()}
	}
	out := *a
	out.ToolBufferMetrics.ByReason = nil
	for reason, n := range a.ToolBufferMetrics.ByReason {
		if out.ToolBufferMetrics.ByReason == nil {
			out.ToolBufferMetrics.ByReason = make(map[string]int64)
		}
		out.ToolBufferMetrics.ByReason[reason] = n
	}
	return out
}

// Raw is the body of GET /v1/usage/raw.
type Raw struct {
	Object            string      `json:"object"` // "list"
	Data              []Entry     `json:"data"`   // the newest first
	ToolBufferMetrics ToolBuffers `json:"tool_buffer_metrics"`
}

// Raw returns a user's last turns, as far as they are kept.
func (b *Book) Raw(user string) Raw {
	raw := Raw{Object: "list", Data: []Entry{}, ToolBufferMetrics: b.Account(user).ToolBufferMetrics}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.entries {
		if e := &b.entries[(b.next+i)%len(b.entries)]; e.user == user {
			raw.Data = append(raw.Data, e.Entry)
		}
	}
	slices.Reverse(raw.Data)
	return raw
}
