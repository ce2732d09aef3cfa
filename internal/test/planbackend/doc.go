// Package planbackend is the back end of a ChatGPT plan for tests: what the real codex
// asks with a login, at the real addresses. A scripted model gives the answers.
//
// A [Backend] is a proxy on loopback. [Login.Write] writes a CODEX_HOME with which Codex
// reaches it: the login in auth.json, the address of the proxy and a certificate authority
// as variables in .env, and an empty config.toml. The proxy takes CONNECT, ends TLS with a certificate for
// whatever host is asked for, and answers
//
//	chatgpt.com      GET  /backend-api/wham/accounts/check             Accounts
//	                 GET  /backend-api/codex/models                    Models
//	                 GET  /backend-api/wham/settings/user              Settings
//	                 GET  /backend-api/wham/usage                      Usage
//	                 GET  /backend-api/wham/rate-limit-reset-credits   Credits
//	                 POST …/wham/rate-limit-reset-credits/consume      SpendCredit
//	                 POST /backend-api/codex/responses                 Responses
//	                 GET  /backend-api/codex/responses                 Socket, a WebSocket
//	                 POST /backend-api/codex/images/generations        Pictures
//	                 POST /backend-api/codex/images/edits              Pictures
//	auth.openai.com  POST /oauth/token                                 Issuer
//	                 POST /api/accounts/deviceauth/usercode            DeviceCode
//	                 POST /api/accounts/deviceauth/token               DeviceToken
//
// Everything else is 404 and kept for [Backend.Unknown]. Nothing reaches the network.
//
// Logins are checked as the plan does: an access token has an end, a refresh token is spent by its
// first use. [Backend.Authorize] is the person who enters the code of a sign-in. [Backend.Fail]
// makes the calls of a kind fail, for all logins or some, until it is healed. [Login.SetMeters] makes a
// login count what its models use, refuse models whose meter is spent, and tell the meters with each answer.
package planbackend
