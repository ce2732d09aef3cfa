package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// children lists the processes below this one that are alive, as "pid name".
// Where there is no /proc it finds none.
func children() []string {
	parents := make(map[int]int)
	names := make(map[int]string)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		open, end := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
		fields := strings.Fields(string(text)[end+1:])
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text[:open])))
		if fields[0] == "Z" {
			continue
		}
		parents[pid], _ = strconv.Atoi(fields[1])
		names[pid] = string(text[open+1 : end])
	}
	var found []string
	for pid := range parents {
		for p := parents[pid]; p > 1; p = parents[p] {
			if p == os.Getpid() {
				found = append(found, fmt.Sprintf("%d %s", pid, names[pid]))
				break
			}
		}
	}
	slices.Sort(found)
	return found
}
