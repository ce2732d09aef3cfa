package e2e

import (
	"cmp"
	"strings"
	"testing"
)

// Cluster is three nodes behind the balancer of the examples.
type Cluster struct {
	*Site // the balancer
	Nodes []*Running
}

// examplePolicy is how the balancer of the examples chooses a node.
const examplePolicy = "lb_policy header X-User-Id {\n\t\t\tfallback header Authorization\n\t\t}"

// NewCluster starts three nodes, with codex options by number, and a balancer that draws a node.
func NewCluster(t testing.TB, options func(node int) string) *Cluster {
	t.Helper()
	return NewClusterBehind(t, "lb_policy random", options)
}

// NewClusterBehind is [NewCluster] with a policy of the balancer; empty: that of the examples.
func NewClusterBehind(t testing.TB, policy string, options func(node int) string) *Cluster {
	t.Helper()
	base, c := NewUnstarted(t), &Cluster{}
	var addresses []string
	for i := range 3 {
		node := base.Node()
		r := node.RunFile(node.Caddyfile("realm cluster\n" + options(i)))
		c.Nodes, addresses = append(c.Nodes, r), append(addresses, node.Addr)
	}
	for _, node := range c.Nodes {
		node.WaitUp()
	}
	c.Site = base.Node()
	text := ReadFile(t, "../../../../examples/cluster/balancer.Caddyfile")
	for _, replaced := range [][2]string{
		{":8080 {", "http://" + c.Addr + " {"}, {"node-1:8080 node-2:8080 node-3:8080", strings.Join(addresses, " ")}, {examplePolicy, cmp.Or(policy, examplePolicy)},
	} {
		if !strings.Contains(text, replaced[0]) {
			t.Fatalf("the example of a balancer lacks %q", replaced[0])
		}
		text = strings.Replace(text, replaced[0], replaced[1], 1)
	}
	balancer := c.RunFile("{\nadmin off\npersist_config off\nservers {\ntrusted_proxies static private_ranges\n}\n}\n" + text)
	balancer.WaitUp()
	return c
}

// Through is a node, past the balancer.
func (c *Cluster) Through(node int) *Site { return c.Nodes[node].Site }
