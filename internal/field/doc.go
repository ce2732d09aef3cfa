// Package field reads the fields of a request's body. What is wrong with one is an
// [Error] that knows the path of the field.
package field
