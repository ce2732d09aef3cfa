package prompt

// What the tests need to know of the limits and texts of a plan.
const (
	DefaultInstructions = defaultInstructions
	OneCall             = oneCall
	JSONInstruction     = jsonInstruction
	SchemaInstruction   = schemaInstruction
	MaxInputChars       = maxInputChars
	MaxToolName         = maxToolName
	MaxFetchedBytes     = maxFetchedBytes
)
