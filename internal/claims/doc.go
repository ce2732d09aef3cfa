// Package claims divides the server's resources among its users: slots for turns and the time of
// the processors ([Queue]), bytes and sockets ([Budget]). Each resource has a limit for all users
// together and a share for each user. A [Crowd] finds out whether a user has to share.
//
// If a resource is used up, a Queue lets a request wait, and a Budget refuses it immediately. When
// a request or a connection ends, it gives back all that it has claimed.
package claims
