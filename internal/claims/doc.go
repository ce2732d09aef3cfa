// Package claims divides what callers can hold: slots for turns ([Queue]), bytes, sockets and
// places ([Budget]), and the time of the processors ([Order]). Each has a bound for all users
// together and a share for each user. A [Crowd] finds out whether a user has to share.
//
// A Queue lets requests wait, a Budget refuses at once, and an Order is for work that takes
// milliseconds. What is claimed is given back when the request or the connection ends.
package claims
