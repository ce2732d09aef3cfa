// Package toolschema prepares the schemas of tools for Codex, which rewrites them
// before the model sees them.
//
// Codex 0.169 does with the schema of a tool what follows. An end-to-end test
// compares this with the real program.
//
//   - Of a schema object it keeps these keywords: $ref, $defs, definitions, type,
//     description, encrypted, enum, items, minItems, properties, required,
//     additionalProperties, anyOf, oneOf and allOf. It turns const into an enum and
//     drops every other keyword, such as default, pattern and minimum.
//   - It gives a type to a schema without one: object beside properties, required
//     or additionalProperties, array beside items or prefixItems, string beside
//     const, enum or format, number beside a bound of numbers. A schema that has
//     none of these, no $ref and no anyOf, oneOf or allOf loses all that it has.
//   - Where items is missing in an array it becomes {"type":"string"}, and so do
//     the schemas true and false.
//   - A keyword of a wrong form makes it refuse the thread.
//   - If the result is longer than 5,000 bytes all descriptions go, then the
//     definitions, then objects that are nested deeply and compositions.
//
// [Fit] repairs what can be repaired in the schema, and puts the rest into words
// for the description of the tool, which Codex passes on unchanged.
package toolschema
