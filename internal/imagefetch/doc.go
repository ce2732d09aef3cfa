// Package imagefetch fetches the images that a request names by URL and returns
// them as data URLs, the only kind that Codex accepts.
//
// The URLs come from clients, so fetching must not give them access to the
// network that this process runs in (SSRF). Only https on port 443 of public
// unicast addresses is allowed. The check applies to the address of each
// connection, so neither DNS nor a redirect can bypass it. Everything read from
// a server has a limit, and a client gets the same message for every host that
// it may not reach.
package imagefetch
