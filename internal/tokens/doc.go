// Package tokens limits texts to a number of tokens of o200k_base, the encoding of
// OpenAI's models since GPT-4o. Its vocabulary is part of the binary.
package tokens
