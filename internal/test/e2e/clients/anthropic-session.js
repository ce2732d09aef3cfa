// A conversation of Anthropic's SDK: node anthropic-session.js BASE_URL <WORK
//
// WORK is JSON: body has the members of all requests but messages, prompts are asked one after the other, and results is
// what each call gets. The prompt null asks for a summary, which takes the place of the conversation. All answers to a
// prompt, and the tokens of their requests, are a line of JSON. An error ends the answers to a prompt.
import { text } from 'node:stream/consumers';
import Anthropic, { APIError } from '@anthropic-ai/sdk';

const [baseURL] = process.argv.slice(2);
const { body, prompts, results } = JSON.parse(await text(process.stdin));
const { messages } = new Anthropic({ baseURL, apiKey: 'unused', maxRetries: 0 }).beta;
const { context_management, ...plain } = body;

let history = [];
for (const content of prompts) {
  if (content !== null) history.push({ role: 'user', content });
  const answers = [];
  for (;;) {
    const request = content === null ? { ...plain, compaction: { type: 'summarize' } } : { ...body };
    request.messages = history;
    try {
      const { max_tokens, stream, ...counted } = request;
      const count = await messages.countTokens(counted);
      const message = await (stream ? messages.stream(request).finalMessage() : messages.create(request));
      answers.push({ message, count });
      if (content === null) history = [];
      history.push({ role: 'assistant', content: message.content });
    } catch (error) {
      if (!(error instanceof APIError)) throw error;
      answers.push({ error: error.message, status: error.status });
      break;
    }
    const { message } = answers.at(-1);
    if (message.stop_reason === 'compaction' && content !== null) continue; // paused: it has not answered yet
    const calls = message.content.filter(({ type }) => type === 'tool_use');
    if (!calls.length) break;
    history.push({ role: 'user', content: calls.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: results })) });
  }
  console.log(JSON.stringify(answers));
}
