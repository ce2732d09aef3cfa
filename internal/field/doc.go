// Package field reads the fields of a request's body. An [Error] has the path of the
// field and what is wrong with it.
package field
