// Package imagefetch fetches the images that a request names by URL, for a
// model behind Codex, which takes none but data URLs.
//
// The URLs are a stranger's, so that the fetching must not become a way into
// the network that this process runs in: only https on port 443 is asked, only
// at public unicast addresses, and the rule is applied to the address that is
// dialled, for each connection anew. What a name resolves to, and where a
// redirect leads, thus does not matter. Everything that a far side could draw
// out has a limit, and a client hears the same sentence for each host that it
// may not reach.
package imagefetch
