package storemodules

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// unsettled are the counts that were not yet in Redis when the last configuration with the store, or
// the last of its requests, ended, since Redis did not work. A file keeps them until this process or
// a later one starts the same store.
type unsettled struct {
	Limits []quota.Unsettled
	Usage  []usage.Batch
}

// unsettledFiles returns the pattern, for [filepath.Glob], that matches the files with the unsettled
// counts of one store. The parameter key is the store's [openStoreKey].
func unsettledFiles(key string) string {
	return filepath.Join(caddy.AppDataDir(), "codex", fmt.Sprintf("unsettled-%x-*.json", sha256.Sum256([]byte(key))))
}

// storeLateCounts stores what requests have counted since saveUnsettled was called. It writes what
// Redis cannot store to a file.
func (e *OpenStore) storeLateCounts(key string) {
	shared, ok := e.Store.(*responsestore.Redis)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lateCountsTimeout)
	defer cancel()
	shared.Limits().Settle(ctx)
	_ = e.Usage.Store(ctx) // saveUnsettled saves what is left
	e.saveUnsettled(key)
}

// saveUnsettled writes the counts that Redis could not store to a new file.
func (e *OpenStore) saveUnsettled(key string) {
	shared, ok := e.Store.(*responsestore.Redis)
	if !ok {
		return
	}
	u := unsettled{shared.Limits().Unsettled(), e.Usage.Unstored()}
	if len(u.Limits)+len(u.Usage) == 0 {
		return
	}
	pattern := unsettledFiles(key)
	err := os.MkdirAll(filepath.Dir(pattern), 0o700)
	var file *os.File
	if err == nil {
		file, err = os.CreateTemp(filepath.Dir(pattern), filepath.Base(pattern))
	}
	if err == nil {
		err = json.NewEncoder(file).Encode(u)
		err = cmp.Or(err, file.Close())
	}
	if err != nil {
		e.logger.Error("what Redis could not count is lost", "turns", len(u.Limits), "error", err)
		return
	}
	e.logger.Warn("Redis did not work; what it could not count waits for the next start", "turns", len(u.Limits), "file", file.Name())
}

// restoreUnsettled adds the counts in the files of saveUnsettled to the store, and removes the
// files. Only one process can remove a file, so each file is counted once.
func (e *OpenStore) restoreUnsettled(key string) {
	shared, ok := e.Store.(*responsestore.Redis)
	if !ok {
		return
	}
	files, _ := filepath.Glob(unsettledFiles(key))
	for _, file := range files {
		var u unsettled
		text, err := os.ReadFile(file)
		if os.Remove(file) != nil {
			continue // another process has removed the file, and adds its counts
		}
		if err = cmp.Or(err, json.Unmarshal(text, &u)); err != nil {
			e.logger.Error("what Redis could not count is lost", "file", file, "error", err)
			continue
		}
		shared.Limits().Resettle(u.Limits)
		e.Usage.Restore(u.Usage)
	}
}
