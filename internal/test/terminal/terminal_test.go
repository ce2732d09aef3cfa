package terminal

import (
	"os/exec"
	"testing"
)

// TestTerminal: a program in a terminal shows what is typed, until it ends.
func TestTerminal(t *testing.T) {
	term := Start(t, exec.Command("sh", "-c", `test -t 0 && printf 'name? '; read name; printf '\033[2Jhello %s\n' "$name"; read rest`))
	term.Wait("name?")
	term.Enter("world")
	term.Wait("hello world")
	if screen := term.Gone("name?"); screen != term.Screen() {
		t.Errorf("the screen shows\n%s", screen)
	}
	term.Send(KeyCtrlD)
	term.WaitEnd()
}

// TestTerminalKills: a program that never ends is killed with its children when the test ends.
func TestTerminalKills(t *testing.T) {
	t.Run("never", func(t *testing.T) {
		Start(t, exec.Command("sh", "-c", "trap '' HUP TERM; sleep 1000 & echo begun; wait")).Wait("begun")
	})
}
