package sse_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/caddy-codex/caddy-codex/sse"
)

// A handler writes events, and a client reads them.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		stream := sse.NewWriter(w, sse.WriterOptions{WriteTimeout: 10 * time.Second})
		for _, word := range []string{"one", "two"} {
			if stream.WriteEvent("word", []byte(word)) != nil || stream.Flush() != nil {
				return // the client has gone
			}
		}
		_ = stream.Close()
	}))
	defer server.Close()
	response, err := http.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	for event, err := range sse.Read(response.Body) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Type, event.Data)
	}
	// Output:
	// word one
	// word two
}
