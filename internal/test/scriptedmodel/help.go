package scriptedmodel

// helpText is the demo model's answer to "help".
const helpText = whoami + `

Write a script, each directive on a line or after a semicolon:

- ` + "`say:TEXT`" + ` a message; ` + "`verbatim:TEXT`" + ` the same, with all that follows untouched
- ` + "`reason:TEXT`" + ` reasoning
- ` + "`tool:N NAME JSON`" + ` N tool calls; ` + "`usetool:N NAME JSON`" + ` N <use_tool> blocks; %d in JSON is the ordinal
- ` + "`then`" + ` what follows answers the results of the calls
- ` + "`http:STATUS SECONDS`" + `, ` + "`limit:SECONDS PLAN`" + `, ` + "`fail:CODE MESSAGE`" + `, ` + "`incomplete:REASON`" + `, ` + "`cutoff`" + `, ` + "`hang`" + ` ways to end badly
- ` + "`chunk=N`" + ` or ` + "`chunk=all`" + `, ` + "`delay=20ms`" + `, ` + "`firstdelay=1s`" + `, ` + "`usage:IN,CACHED,OUT,REASONING[,CACHE_WRITE]`" + `, ` + "`callid=ID`" + `, ` + "`price=AMOUNT`" + ` settings

For example:

    delay=50ms; reason:Let me think.; say:Here is a slow answer.
    tool:2 NAME {"query":"note %d"}; then; say:Both are found.
    say:It is; incomplete:max_output_tokens
`
