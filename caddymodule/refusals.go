package caddymodule

import (
	"cmp"
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// refusalLines is how many refused requests with the same error code are logged and listed in a
// minute. Otherwise a flood of them, such as attempts to guess a key, could fill the disk.
const refusalLines = 20

type refusalSample struct {
	logger  *zap.Logger
	mu      sync.Mutex
	minute  int64          // the minute of seen
	seen    map[string]int // by the label of the error code; there are as many labels as codes of this server
	leftOut int            // requests that were not chosen since the last chosen one
}

// choose reports whether a refusal is logged and listed. leftOut is how many refusals were not chosen since
// the last chosen one.
func (s *refusalSample) choose(label string, now time.Time) (chosen bool, leftOut int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if minute := now.Unix() / 60; s.seen == nil || minute != s.minute {
		s.minute, s.seen = minute, make(map[string]int)
	}
	if s.seen[label]++; s.seen[label] > refusalLines {
		s.leftOut++
		return false, 0
	}
	leftOut, s.leftOut = s.leftOut, 0
	return true, leftOut
}

// recordRefusal counts a request that was refused before its turns in the usage, and lists and logs
// it if the sample chooses it. It does nothing if the request has not failed or has had turns, or if its
// client has left.
func (h *Handler) recordRefusal(r *http.Request, reqCtx *requestContext, route string) {
	failure := reqCtx.failure
	if failure == nil || reqCtx.turns != nil || failure.Code == apierror.ClientGone().Code {
		return
	}
	now := time.Now()
	chosen, leftOut := h.refusals.choose(failure.Code.Label(), now)
	record := usage.Record{
		Time: now, Route: route, RequestID: r.Header.Get(requestIDHeader),
		User: h.accountOf(r), Status: failure.Status, Code: failure.Code, Unlisted: !chosen,
	}
	if k := h.entryOf(r); k != nil {
		record.Key = k.ID
	}
	usageBook.Add(record)
	h.sharedUsage.Add(record)
	if chosen {
		h.refusals.log(r, failure, &record, leftOut)
	}
}

// log logs a refused request, without its key and without the message of an error about an
// invalid request, since the message may quote the request.
func (s *refusalSample) log(r *http.Request, failure *apierror.Error, record *usage.Record, leftOut int) {
	level, message := zapcore.InfoLevel, "request refused"
	var more []zap.Field
	switch {
	case failure.Code == apierror.CodeInvalidAPIKey:
		level, message = zap.WarnLevel, "the API key is missing or wrong"
		more = append(more, zap.Bool("missing", presentedKey(r) == ""))
	case failure.Status >= http.StatusInternalServerError || failure.Detail != "":
		level = zap.WarnLevel
		more = append(more, zap.String("error", cmp.Or(failure.Detail, failure.Message)))
	}
	if leftOut > 0 {
		more = append(more, zap.Int("left_out", leftOut))
	}
	address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	s.logger.Log(level, message, append(more,
		zap.String("request_id", record.RequestID), zap.String("user", record.User), zap.String("route", record.Route),
		zap.Int("status", failure.Status), zap.String("code", failure.Code.Label()), zap.String("param", usage.Shorten(failure.Param)),
		zap.String("client_ip", address), zap.String("user_agent", usage.Shorten(r.UserAgent())),
		zap.String("method", usage.Shorten(r.Method)), zap.String("path", usage.Shorten(r.URL.Path)),
	)...)
}
