package simulation

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// stage builds the messages of one turn of the app-server.
type stage struct {
	asked  fakecodex.Asked
	script *script
	said   *said
	spent  usage // on the thread before
	random *rand.Rand
	steps  []fakecodex.Step
	spoken int // number of messages of the answer
	calls  int // number of requests
	heard  spoken
}

// spoken is the content of a turn.
type spoken struct {
	text, reasoning string
	texts           []string
	calls           []apiclient.Call
	end             end
	number          int // number of the turn among those of its token
}

// perform returns a turn of a script, or its rest. spent is what its thread has used before.
func perform(asked fakecodex.Asked, s *script, a *said, spent usage) ([]fakecodex.Step, spoken) {
	p := &stage{asked: asked, script: s, said: a, spent: spent, random: randomOf(a.who + ".stage")}
	if !asked.Resumed {
		p.begin()
	}
	p.think()
	p.talk()
	p.call()
	p.heard.end = endWell
	if p.cutOff() {
		p.heard.end = p.script.End
		p.breakOff()
	} else {
		p.finish()
	}
	return p.steps, p.heard
}

// begin sends the answer to turn/start, and that the turn has started.
func (p *stage) begin() {
	asked := p.asked
	started := fmt.Sprintf(`{"method":"turn/started","params":{"threadId":%s,"turn":{"id":%s,"status":"inProgress"}}}`, quote(asked.Thread), quote(asked.Turn))
	accepted := fmt.Sprintf(`{"id":0,"result":{"turn":{"id":%s,"status":"inProgress","error":null}}}`, quote(asked.Turn))
	if p.random.IntN(2) == 0 {
		started, accepted = accepted, started
	}
	p.send(started)
	p.noise()
	p.send(accepted)
}

// cutOff reports whether the script ends before the next message.
func (p *stage) cutOff() bool { return p.script.End != endWell && p.spoken >= p.script.EndAt }

// speak adds a message of the answer, unless the script has ended.
func (p *stage) speak(method, params string) (said bool) {
	if p.cutOff() {
		return false
	}
	p.spoken++
	p.noise()
	p.pause()
	p.notify(method, params)
	return true
}

func (p *stage) send(message string) {
	p.steps = append(p.steps, fakecodex.Step{Message: message})
}

func (p *stage) notify(method, params string) {
	p.send(fmt.Sprintf(`{"method":%s,"params":{"threadId":%s,"turnId":%s,%s}}`, quote(method), quote(p.asked.Thread), quote(p.asked.Turn), params))
}

// pause adds a pause, sometimes.
func (p *stage) pause() {
	if p.script.Pause > 0 && p.random.IntN(4) == 0 {
		p.steps = append(p.steps, fakecodex.Step{Pause: time.Duration(1 + p.random.Int64N(int64(p.script.Pause))), Message: `{"method":"future/pause"}`})
	}
}

// noise adds messages that do not matter to the turn, sometimes.
func (p *stage) noise() {
	if !p.script.Noise || p.random.IntN(5) > 0 {
		return
	}
	alien := fmt.Sprintf(`"turnId":"turn-alien","itemId":"alien","delta":"ALIEN of %s"`, p.said.who)
	switch p.random.IntN(7) {
	case 0:
		p.send("codex: not a message")
	case 1:
		p.send(`{"method":`)
	case 2: // another turn of the same thread
		p.send(fmt.Sprintf(`{"method":"item/agentMessage/delta","params":{"threadId":%s,%s}}`, quote(p.asked.Thread), alien))
	case 3: // an unknown thread
		p.send(fmt.Sprintf(`{"method":"item/agentMessage/delta","params":{"threadId":"thread-alien",%s}}`, alien))
	case 4:
		p.send(`{"method":"future/blob","params":"` + strings.Repeat("x", p.random.IntN(100_000)) + `"}`)
	case 5: // an answer to an unknown call
		p.send(`{"id":"alien","result":{"turn":{"id":"alien"}}}`)
	case 6:
		id := p.nextID()
		p.send(fmt.Sprintf(`{"id":%s,"method":"future/request","params":{"threadId":%s}}`, id, quote(p.asked.Thread)))
		p.steps = append(p.steps, fakecodex.Step{Await: id})
	}
}

func (p *stage) nextID() string {
	p.calls++
	return fmt.Sprint(p.calls)
}

func (p *stage) think() {
	if len(p.said.reasoning) == 0 {
		return
	}
	for i, part := range p.said.reasoning {
		gap := gap(i)
		for _, delta := range pieces(p.random, part, p.script.Delta) {
			if p.speak("item/reasoning/summaryTextDelta", fmt.Sprintf(`"itemId":"rs-1","delta":%s,"summaryIndex":%d`, quote(delta), i)) {
				p.heard.reasoning += gap + delta
				gap = ""
			}
		}
	}
	p.speak("rawResponseItem/completed", fmt.Sprintf(`"item":{"type":"reasoning","id":"rs-1","encrypted_content":%s}`, quote("secret of "+p.said.who)))
}

// gap returns the separator before the i-th message.
func gap(i int) string {
	if i == 0 {
		return ""
	}
	return "\n\n"
}

// talk adds a message for each text.
func (p *stage) talk() {
	for i, text := range p.said.texts {
		gap, item := gap(i), fmt.Sprintf("msg-%d", i)
		p.speak("item/started", fmt.Sprintf(`"item":{"type":"agentMessage","id":%s,"text":""}`, quote(item)))
		for _, delta := range pieces(p.random, text, p.script.Delta) {
			if p.speak("item/agentMessage/delta", fmt.Sprintf(`"itemId":%s,"delta":%s`, quote(item), quote(delta))) {
				p.heard.say(gap, delta)
				gap = ""
			}
		}
		done := fmt.Sprintf(`"item":{"type":"agentMessage","id":%s,"text":%s}`, quote(item), quote(text))
		p.speak("item/completed", done)
		if p.script.Noise && p.random.IntN(4) == 0 {
			p.speak("item/completed", done) // twice
		}
	}
}

func (s *spoken) say(gap, delta string) {
	s.text += gap + delta
	if gap != "" || len(s.texts) == 0 {
		s.texts = append(s.texts, "")
	}
	s.texts[len(s.texts)-1] += delta
}

// call adds calls of the client's tools.
func (p *stage) call() {
	for _, c := range p.said.calls {
		raw := fmt.Sprintf(`"item":{"type":"function_call","id":%s,"name":%s,"arguments":%s,"call_id":%s}`,
			quote("fc-"+c.ID), quote(c.Name), quote(c.Arguments), quote(c.ID))
		if !p.speak("rawResponseItem/completed", raw) {
			return
		}
		p.heard.calls = append(p.heard.calls, c)
		if p.script.Noise && p.random.IntN(4) == 0 {
			p.notify("rawResponseItem/completed", raw) // twice
		}
		p.send(fmt.Sprintf(`{"id":%s,"method":"item/tool/call","params":{"threadId":%s,"turnId":%s,"callId":%s,"tool":%s,"arguments":%s}}`,
			p.nextID(), quote(p.asked.Thread), quote(p.asked.Turn), quote(c.ID), quote(c.Name), c.Arguments))
	}
}

// finish ends a turn that succeeds. One with calls waits for their results.
func (p *stage) finish() {
	p.notify("rawResponse/completed", `"responseId":"resp-1","usage":`+p.said.usage.String())
	p.notifyUsage()
	if len(p.said.calls) > 0 {
		p.steps = append(p.steps, fakecodex.Step{Resume: true})
		return
	}
	p.end("completed", "null")
	if p.script.Noise { // late, and twice
		p.notify("item/agentMessage/delta", `"itemId":"msg-late","delta":"LATE"`)
		p.end("completed", "null")
	}
}

// forever is longer than any run.
const forever = 1000 * time.Hour

// breakOff ends a turn that fails.
func (p *stage) breakOff() {
	switch p.script.End {
	case endSilent:
		p.steps = append(p.steps, fakecodex.Step{Pause: forever, Message: `{"method":"future/never"}`})
	case endOutside:
		p.end("interrupted", "null")
	case endLength:
		p.notifyUsage()
		p.end("failed", `{"message":"Incomplete response returned, reason: max_output_tokens","codexErrorInfo":"other"}`)
	default:
		info := "internalServerError"
		if p.script.End == endTooLong {
			info = "contextWindowExceeded"
		}
		failure := fmt.Sprintf(`{"message":%s,"codexErrorInfo":%q}`, quote("failure of "+p.said.who), info)
		p.notify("error", fmt.Sprintf(`"error":%s,"willRetry":false`, failure))
		p.end("failed", failure)
	}
}

func (p *stage) end(status, failure string) {
	p.send(fmt.Sprintf(`{"method":"turn/completed","params":{"threadId":%s,"turn":{"id":%s,"status":%s,"error":%s}}}`,
		quote(p.asked.Thread), quote(p.asked.Turn), quote(status), failure))
}

// notifyUsage sends the usage of the thread.
func (p *stage) notifyUsage() {
	total := p.spent
	total.add(p.said.usage)
	p.notify("thread/tokenUsage/updated", fmt.Sprintf(`"tokenUsage":{"total":%s,"last":%s}`, total, p.said.usage))
}

// String returns the usage on the wire.
func (u usage) String() string {
	return fmt.Sprintf(`{"totalTokens":%d,"inputTokens":%d,"cachedInputTokens":%d,"outputTokens":%d,"reasoningOutputTokens":%d}`,
		u.Input+u.Output, u.Input, u.Cached, u.Output, u.Reasoned)
}

func quote(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can be encoded
	}
	return string(encoded)
}
