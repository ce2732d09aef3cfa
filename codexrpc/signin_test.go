package codexrpc

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestSignIn checks what a sign-in by a code asks for, and how its end is told.
func TestSignIn(t *testing.T) {
	for end, want := range map[string]string{
		`{"loginId":"l","success":true,"error":null}`:                               "",
		`{"loginId":"l","success":false,"error":"device auth failed"}`:              "codex says: device auth failed",
		`{"success":false,"error":"` + strings.Repeat("x", 2*maxSignInError) + `"}`: "codex says: " + strings.Repeat("x", maxSignInError) + "…",
		`{"success":"true","future":[]}`:                                            "codex says: no reason",
	} {
		withPeer(t, func(t *testing.T, c *Conn, p *peer) {
			var code DeviceCode
			done := async(func() (err error) {
				code, err = c.StartSignIn(t.Context())
				return err
			})
			call := p.expect(methodLogin)
			if string(call.Params) != `{"type":"chatgptDeviceCode"}` {
				t.Errorf("asked %s", call.Params)
			}
			p.answer(call, `{"type":"chatgptDeviceCode","loginId":"l","verificationUrl":"https://x.example/d","userCode":"AB-CD"}`)
			if err := <-done; err != nil || code != (DeviceCode{URL: "https://x.example/d", Code: "AB-CD"}) {
				t.Errorf("%+v, %v", code, err)
			}
			gone, leave := context.WithCancelCause(t.Context())
			leave(errors.New("left"))
			if err := c.AwaitSignIn(gone); err == nil || err.Error() != "left" {
				t.Errorf("who leaves gets %v", err)
			}
			p.notify(methodLoginCompleted, end)
			p.notify(methodLoginCompleted, `{"success":true}`) // which nobody waits for
			if err := c.AwaitSignIn(t.Context()); err == nil && want != "" || err != nil && err.Error() != want {
				t.Errorf("%s is told as %v", end, err)
			}
		})
	}
}

// TestNoDeviceCode checks that an answer without a usable code is a failure.
func TestNoDeviceCode(t *testing.T) {
	for _, answer := range []string{
		`{}`,
		`{"verificationUrl":"https://x.example/d","userCode":""}`,
		`{"verificationUrl":"http://x.example/d","userCode":"AB-CD"}`,
		`{"verificationUrl":"javascript:0","userCode":"AB-CD"}`,
		`{"verificationUrl":"https://x.example/d","userCode":"` + strings.Repeat("A", maxDeviceCode) + `"}`,
	} {
		withPeer(t, func(t *testing.T, c *Conn, p *peer) {
			done := async(func() error {
				code, err := c.StartSignIn(t.Context())
				if code != (DeviceCode{}) {
					t.Errorf("the code is %+v", code)
				}
				return err
			})
			p.answer(p.expect(methodLogin), answer)
			if err := <-done; err == nil {
				t.Errorf("%.80s is a code", answer)
			}
		})
	}
}
