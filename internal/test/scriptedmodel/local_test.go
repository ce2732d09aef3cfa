package scriptedmodel

import (
	"net/http"
	"testing"
)

func TestListen(t *testing.T) {
	l, err := Listen(Options{})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(l.URL + "/models")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Error(response.Status)
	}
	l.Close()
	if response, err := client.Get(l.URL + "/models"); err == nil {
		_ = response.Body.Close()
		t.Error("it is still served after Close")
	}
}
