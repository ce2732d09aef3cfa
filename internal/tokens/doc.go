// Package tokens limits texts to a number of tokens. What a token is says
// o200k_base, the encoding of OpenAI's models since GPT-4o; the vocabulary is
// part of the binary.
package tokens
