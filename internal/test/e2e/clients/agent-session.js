// A session of the Claude Agent SDK: node agent-session.js CLAUDE BASE_URL PROMPTS
//
// Each of the prompts, a JSON list, goes on with the session of those before. What the
// session has said in the end of each is a line.
import { query } from '@anthropic-ai/claude-agent-sdk';

const [pathToClaudeCodeExecutable, baseURL, prompts] = process.argv.slice(2);
const env = { ...process.env, ANTHROPIC_BASE_URL: baseURL };

let session;
for (const prompt of JSON.parse(prompts)) {
  const options = { env, pathToClaudeCodeExecutable, resume: session, allowedTools: ['Bash', 'ToolSearch', 'CronList'] };
  for await (const message of query({ prompt, options })) {
    if (message.type !== 'result') continue;
    session = message.session_id;
    console.log(message.result);
  }
}
