// Package toolschema prepares the schemas of tools for Codex, which rewrites them
// before the model sees them.
//
// This is what Codex 0.169 does. An end-to-end test compares it with the real program.
//
//   - It keeps these keywords: $ref, $defs, definitions, type, description, encrypted,
//     enum, items, minItems, properties, required, additionalProperties, anyOf, oneOf
//     and allOf. It turns const into an enum. It removes all other keywords, such as
//     default, pattern and minimum.
//   - It adds a type to a schema without one: object if there are properties, required
//     or additionalProperties, array for items or prefixItems, string for const, enum or
//     format, number for limits of numbers. If a schema has none of these, and neither
//     $ref nor anyOf, oneOf or allOf, it removes all its keywords.
//   - If an array has no items, it adds {"type":"string"}. It replaces the schemas true
//     and false by the same.
//   - It refuses the thread if the value of a keyword has the wrong form.
//   - If the result has more than 5,000 bytes, it removes all descriptions, then the
//     definitions, then deeply nested objects and compositions.
//
// [Fit] corrects the schema where that is possible. The rest it puts into words for the
// description of the tool, which Codex does not change.
package toolschema
