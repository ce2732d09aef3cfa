// Package models writes the lists of models that the API offers.
package models
