package redisserver

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/ports"
)

// Replica starts a server that has all that s has, and waits until it does.
func (s *Server) Replica(t testing.TB) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(s.Addr)
	replica := Start(t, "--replicaof", host, port, "--repl-diskless-sync-delay", "0")
	_, own, _ := net.SplitHostPort(replica.Addr)
	must.Happen(t, "the replica", func() bool { // the master may learn later that the replica has all
		return strings.Contains(replica.Do("INFO replication"), "master_link_status:up") &&
			strings.Contains(s.Do("INFO replication"), "port="+own+",state=online")
	})
	return replica
}

// Replicated returns how many replicas have all that s has.
func (s *Server) Replicated() int {
	info := s.Do("INFO replication")
	_, rest, _ := strings.Cut(info, "master_repl_offset:")
	offset, _, _ := strings.Cut(rest, "\r\n")
	return strings.Count(info, "state=online,offset="+offset+",")
}

// KillReplicated kills s once its replica has all that s has answered, and lets the sentinel notice it
// within a second.
func (s *Server) KillReplicated(t testing.TB, sentinel *Server) {
	t.Helper()
	expect := func(server *Server, command string) {
		if answer := server.Do(command); !strings.HasPrefix(answer, "+OK") {
			t.Errorf("%s: %s", command, answer)
		}
	}
	expect(s, "CLIENT PAUSE 60000 WRITE")
	must.Happen(t, "the replica has all", func() bool { return s.Replicated() == 1 })
	s.Kill()
	expect(sentinel, "SENTINEL SET main down-after-milliseconds 1000")
}

// Sentinel starts a sentinel that watches s by the name "main", and replaces it by a replica when it
// has not answered for this time. If the time is short, a busy machine causes a failover, too.
func (s *Server) Sentinel(t testing.TB, downAfter time.Duration) *Server {
	t.Helper()
	addr, err := ports.Free()
	must.OK(t, err)
	_, port, _ := net.SplitHostPort(addr)
	host, master, _ := net.SplitHostPort(s.Addr)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	config := fmt.Sprintf("bind 127.0.0.1\nport %s\nsentinel monitor main %s %s 1\nsentinel down-after-milliseconds main %d\nsentinel failover-timeout main 5000\n", port, host, master, downAfter.Milliseconds())
	must.OK(t, os.WriteFile(file, []byte(config), 0o600))
	sentinel := &Server{Addr: addr, t: t, program: s.program, args: []string{file, "--sentinel"}, log: new(bytes.Buffer)}
	sentinel.Restart()
	sentinel.killAfter(t)
	replicas := strings.Count(s.Do("INFO replication"), "state=online")
	must.Happen(t, "the sentinel to find the replicas", func() bool {
		return strings.Contains(sentinel.Do("SENTINEL MASTER main"), fmt.Sprintf("num-slaves\r\n$1\r\n%d", replicas))
	})
	return sentinel
}

// Cluster starts a server that is a whole Redis Cluster.
func Cluster(t testing.TB) *Server {
	t.Helper()
	return ClusterOf(t, 1)[0]
}

// ClusterOf starts servers that are a Redis Cluster, each with a part of the slots.
func ClusterOf(t testing.TB, servers int) (all []*Server) {
	t.Helper()
	for i := range servers {
		bus, err := ports.Free()
		must.OK(t, err)
		_, port, _ := net.SplitHostPort(bus)
		server := Start(t, "--cluster-enabled", "yes", "--cluster-port", port)
		server.Do(fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", 16384*i/servers, 16384*(i+1)/servers-1))
		if all = append(all, server); i > 0 {
			host, own, _ := net.SplitHostPort(server.Addr)
			all[0].Do(fmt.Sprintf("CLUSTER MEET %s %s %s", host, own, port))
		}
	}
	for _, server := range all {
		must.Happen(t, "the cluster", func() bool {
			return strings.Contains(server.Do("CLUSTER INFO"), "cluster_state:ok") && strings.Contains(server.Do("CLUSTER INFO"), fmt.Sprintf("cluster_known_nodes:%d", servers))
		})
	}
	return all
}
