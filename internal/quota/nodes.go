package quota

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/storagecall"
	"github.com/caddy-codex/caddy-codex/internal/storedbook"
)

const (
	// SyncInterval is how often a node stores what it has counted, if that has changed, and
	// reads what the others have.
	SyncInterval = 2 * time.Second
	// folder holds the documents of the nodes.
	folder = "codex/keys"
	// maxNodes bounds the documents that are read.
	maxNodes = 256
	// readTimeout bounds the time to read them all.
	readTimeout = 10 * time.Second
	// left is the age at which a document in which nothing counts any more is deleted.
	left = time.Hour
	// logInterval is how often a failure that lasts is logged.
	logInterval = time.Minute
)

// Storage is what nodes share. Caddy's storage implements it.
type Storage interface {
	storedbook.Storage
	List(ctx context.Context, path string, recursive bool) ([]string, error)
	Delete(ctx context.Context, key string) error
}

// NewKeeper returns a keeper of a ledger.
func NewKeeper(l *Ledger) *storedbook.Keeper {
	return storedbook.NewKeeper(l, "the use of API keys", SyncInterval)
}

// Place returns where a node with an id keeps its ledger. It also reads what other nodes
// have counted there.
func (l *Ledger) Place(storage Storage, id string, log *slog.Logger) storedbook.Place {
	n := &nodes{ledger: l, storage: storage, own: folder + "/" + id + ".json", log: log, calls: storagecall.NewLimit(1)}
	return storedbook.Place{Storage: storage, Key: n.own, Logger: log, Then: n.sync}
}

// nodes reads the documents of the other nodes. Its methods are called one at a time.
type nodes struct {
	ledger  *Ledger
	storage Storage
	own     string // the key of this node's document
	log     *slog.Logger
	calls   *storagecall.Limit
	logged  time.Time // when a failure was last logged
}

// sync reads what other nodes have counted. After a failure, what was read last stays.
func (n *nodes) sync() {
	ctx, cancel := context.WithTimeoutCause(context.Background(), readTimeout,
		fmt.Errorf("the storage has not answered within %s", readTimeout))
	defer cancel()
	if all, err := n.read(ctx); err == nil {
		n.ledger.share(all)
	} else {
		n.failed(err)
	}
}

// failed logs a failure, no more often than that is useful.
func (n *nodes) failed(err error) {
	if n.logged.IsZero() || time.Since(n.logged) >= logInterval {
		n.logged = time.Now()
		n.log.Error("the use of API keys at other nodes cannot be read; it is tried again", "error", err)
	}
}

// read returns the counts of the other nodes.
func (n *nodes) read(ctx context.Context) (all []map[string]map[measure]counts, err error) {
	keys, err := storagecall.Do(ctx, n.calls, nil, func(ctx context.Context) ([]string, error) {
		return n.storage.List(ctx, folder, false)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	now := n.ledger.now()
	for _, key := range keys {
		if key == n.own || path.Ext(key) != ".json" || !strings.HasPrefix(key, folder+"/") {
			continue
		}
		if len(all) == maxNodes {
			return nil, fmt.Errorf("there are more than %d nodes in %s", maxNodes, folder)
		}
		content, err := storagecall.Do(ctx, n.calls, nil, func(ctx context.Context) ([]byte, error) { return n.storage.Load(ctx, key) })
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was deleted just now
		}
		if err != nil {
			return nil, err
		}
		d, accounts, err := decode(content)
		if err != nil {
			n.failed(fmt.Errorf("%s cannot be used: %w", key, err))
			continue // the other nodes still count
		}
		if !over(accounts, now) {
			all = append(all, accounts)
		} else if now.Sub(time.Unix(d.At, 0)) > left {
			n.delete(ctx, key)
		}
	}
	return all, nil
}

// delete deletes the document of a node that has counted nothing for long. If the node
// still runs, it stores another one with its next count.
func (n *nodes) delete(ctx context.Context, key string) {
	_, err := storagecall.Do(ctx, n.calls, nil, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, n.storage.Delete(ctx, key)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.log.Warn("an old document of the use of API keys cannot be deleted", "key", key, "error", err)
	}
}
