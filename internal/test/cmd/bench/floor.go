package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	_ "expvar" // serves the counts of allocations
	"fmt"
	"io"
	"net/http"
	_ "net/http/pprof" // serves profiles
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// floor is the least Go program that turns the app-server's lines into the same chunks: no checks,
// bounds, clock, log or metrics, little decoding, and each delta is written at once. What another
// proxy costs beyond it is the price of what that does.
type floor struct {
	writing sync.Mutex
	w       io.Writer

	mu      sync.RWMutex
	lastID  int
	calls   map[string]chan []byte      // results, by the id of the call
	threads map[string]chan floorOutput // deltas, by the thread
}

// floorOutput is a delta as JSON, or the end of the turn.
type floorOutput []byte

func runFloor(addr string) error {
	if err := serveFloor(); err != nil {
		return err
	}
	return http.ListenAndServe(addr, nil)
}

// serveFloor adds the floor to the handlers of the process. It runs the double.
func serveFloor() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, roleDouble)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	f := &floor{w: in, calls: make(map[string]chan []byte), threads: make(map[string]chan floorOutput)}
	go f.read(out)
	http.HandleFunc("/v1/chat/completions", f.serve)
	for _, path := range []string{"/readyz", barePath} {
		http.HandleFunc(path, func(http.ResponseWriter, *http.Request) {})
	}
	return nil
}

// read passes answers to their calls and deltas to their threads.
func (f *floor) read(from io.Reader) {
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := readLine(r)
		if err != nil {
			os.Exit(0) // the double has ended
		}
		if id := callID(line); id != nil {
			f.mu.Lock()
			answer := f.calls[string(id)]
			delete(f.calls, string(id))
			f.mu.Unlock()
			if answer != nil {
				answer <- bytes.Clone(line)
			}
			continue
		}
		var out floorOutput
		switch method := member(line, methodMember); string(method) {
		case "item/agentMessage/delta":
			_, delta, _ := bytes.Cut(line, []byte(`"delta":`))
			out = bytes.Clone(delta[:bytes.LastIndexByte(delta, '}')]) // up to the end of emittedAtMs
			out = out[:bytes.LastIndexByte(out, '}')]
		case "turn/completed":
		default:
			continue
		}
		f.mu.RLock()
		thread := f.threads[string(member(line, threadMember))]
		f.mu.RUnlock()
		if thread != nil {
			thread <- out
		}
	}
}

// call calls a method, and waits for the answer if wanted. params have no closing brace.
func (f *floor) call(method string, params []byte, wait bool) []byte {
	var answer chan []byte
	f.mu.Lock()
	f.lastID++
	id := strconv.Itoa(f.lastID)
	if wait {
		answer = make(chan []byte, 1)
		f.calls[id] = answer
	}
	f.mu.Unlock()
	line := make([]byte, 0, len(params)+64)
	line = append(append(line, `{"id":`+id+`,"method":"`+method+`","params":{`...), params...)
	f.writing.Lock()
	_, err := f.w.Write(append(line, "}}\n"...))
	f.writing.Unlock()
	if err != nil {
		os.Exit(1)
	}
	if !wait {
		return nil
	}
	return <-answer
}

func (f *floor) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var request struct {
		Model    string
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &request); err != nil || len(request.Messages) == 0 {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	thread := f.startThread(request.Model)
	outputs := make(chan floorOutput, 64)
	f.mu.Lock()
	f.threads[thread] = outputs
	f.mu.Unlock()
	defer f.forget(thread, outputs)
	last := len(request.Messages) - 1
	params := []byte(`"threadId":"` + thread + `",`)
	if last > 0 {
		items := append(bytes.Clone(params), `"items":[`...)
		for i, m := range request.Messages[:last] {
			if i > 0 {
				items = append(items, ',')
			}
			items = append(items, `{"type":"message","role":"`+m.Role+`","content":[{"type":"input_text","text":`...)
			items = append(append(items, m.Content...), "}]}"...)
		}
		f.call("thread/inject_items", append(items, ']'), true)
	}
	params = append(append(append(params, `"input":[{"type":"text","text":`...), request.Messages[last].Content...), "}]"...)
	f.call("turn/start", params, true)
	f.stream(w, r, request.Model, outputs)
}

// threadParams are those with which Caddy starts a thread.
const threadParams = `"baseInstructions":"You are a helpful assistant.","cwd":"/","approvalPolicy":"never","sandbox":"read-only","ephemeral":true,"experimentalRawEvents":true,"environments":[],"config":{"agents":{"enabled":false},"features":{"apps":false,"code_mode":{"direct_only_tool_namespaces":["functions"]},"goals":false,"hooks":false,"image_generation":false,"memories":false,"multi_agent":false,"plugins":false,"shell_snapshot":false,"shell_tool":false,"sleep_tool":false,"tool_suggest":false,"unbounded_connection_retries":false,"unified_exec":false,"view_image":false},"include_collaboration_mode_instructions":false,"include_environment_context":false,"include_permissions_instructions":false,"model_auto_compact_token_limit":1099511627776,"model_reasoning_summary":"auto","project_doc_max_bytes":0,"skills":{"bundled":{"enabled":false},"include_instructions":false},"thread_unload_delay_secs":0,"tool_output_token_limit":1099511627776,"tools":{"experimental_request_user_input":{"enabled":false}},"web_search":"disabled"}`

func (f *floor) startThread(model string) string {
	answer := f.call("thread/start", []byte(`"model":"`+model+`",`+threadParams), true)
	return string(member(answer, idMember))
}

func (f *floor) stream(w http.ResponseWriter, r *http.Request, model string, outputs <-chan floorOutput) {
	w.Header().Set("Content-Type", "text/event-stream")
	response := http.NewResponseController(w)
	before := fmt.Sprintf(`data: {"id":"chatcmpl-%d","object":"chat.completion.chunk","created":%d,"model":"%s","choices":[{"index":0,"delta":`, time.Now().UnixNano(), time.Now().Unix(), model)
	buf := append([]byte(before), `{"role":"assistant","content":""},"finish_reason":null}]}`+"\n\n"...)
	_, _ = w.Write(buf)
	for {
		select {
		case out := <-outputs:
			if out == nil {
				buf = append(append(buf[:0], before...), `{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n"...)
				_, _ = w.Write(buf)
				return
			}
			buf = append(append(append(append(buf[:0], before...), `{"content":`...), out...), `},"finish_reason":null}]}`+"\n\n"...)
			_, _ = w.Write(buf)
			_ = response.Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// forget ends a thread, whether its turn has ended or not.
func (f *floor) forget(thread string, outputs <-chan floorOutput) {
	f.mu.Lock()
	delete(f.threads, thread)
	f.mu.Unlock()
	for len(outputs) > 0 { // the reader may wait
		<-outputs
	}
	f.call("turn/interrupt", []byte(`"threadId":"`+thread+`"`), false)
	f.call("thread/unsubscribe", []byte(`"threadId":"`+thread+`"`), false)
}
