package scriptedmodel

// HelpText is the answer to "help": six lines, which name all directives. What
// they do in full is in the comment of the package.
const HelpText = "**I am the built-in demo model**, not a real one. For that, write *log in*.\n" +
	"- Offer a tool and say *use the tool*: I call it, and quote its result.\n" +
	"- Write an answer: `say:TEXT`, `verbatim:TEXT`, `reason:TEXT`, `tool:N NAME JSON`, `usetool:N NAME JSON`, and `then` for what follows the results.\n" +
	"- Let it fail: `http:STATUS`, `limit:SECONDS`, `fail:CODE`, `incomplete:REASON`, `cutoff`, `hang`.\n" +
	"- Set it: `chunk=N`, `delay=20ms`, `firstdelay=1s`, `usage:IN,CACHED,OUT,REASONING`, `callid=ID`, `price=AMOUNT`.\n" +
	"- For example: `delay=50ms; reason:Let me think.; say:Here is a slow answer.`"
