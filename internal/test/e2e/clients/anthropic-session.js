// A conversation of Anthropic's SDK: node anthropic-session.js BASE_URL WORK
//
// WORK is JSON: body has the members of all requests but messages, prompts are asked one after the other, and results is
// what each call gets. All answers to a prompt, and the tokens of their requests, are a line of JSON. An error ends it.
import Anthropic, { APIError } from '@anthropic-ai/sdk';

const [baseURL, work] = process.argv.slice(2);
const { body, prompts, results } = JSON.parse(work);
const { messages } = new Anthropic({ baseURL, apiKey: 'unused', maxRetries: 0 }).beta;

const history = [];
for (const content of prompts) {
  history.push({ role: 'user', content });
  const answers = [];
  for (;;) {
    const request = { ...body, messages: history };
    try {
      const { max_tokens, ...counted } = request;
      const count = await messages.countTokens(counted);
      const message = await (body.stream ? messages.stream(request).finalMessage() : messages.create(request));
      answers.push({ message, count });
      history.push({ role: 'assistant', content: message.content });
    } catch (error) {
      if (!(error instanceof APIError)) throw error;
      answers.push({ error: error.message, status: error.status });
      break;
    }
    const calls = history.at(-1).content.filter(({ type }) => type === 'tool_use');
    if (!calls.length) break;
    history.push({ role: 'user', content: calls.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: results })) });
  }
  console.log(JSON.stringify(answers));
}
