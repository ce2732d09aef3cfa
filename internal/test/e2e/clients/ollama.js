// Ollama's own client.
import { Ollama } from 'ollama';
import { z } from 'zod';
import { call, form, model, search, tool } from './shared.js';

export const client = (baseURL) => new Ollama({ host: baseURL.replace(/\/v1$/, '') });

function request(c) {
  const body = { model, messages: [{ role: 'user', content: c.prompt }] };
  if (c.tools) body.tools = [{ type: 'function', function: tool }];
  if (c.form) body.format = z.toJSONSchema(form);
  if (c.json) body.format = 'json';
  return body;
}

// rounds asks, answers the calls if the case wants it, and asks again.
async function rounds(c, ask) {
  const body = request(c);
  const first = await ask(body);
  if (!c.results) return saw(c, first);
  const messages = [...body.messages, first.message, ...resultsOf(first.message)];
  const second = await ask({ ...body, messages });
  return { ...saw(c, second), calls: callsOf(first.message) };
}

const callsOf = ({ tool_calls }) => (tool_calls ?? []).map((made) => call(made.function.name, made.function.arguments));

// Ollama's documentation sends the name of the tool, and no id.
const resultsOf = ({ tool_calls }) =>
  (tool_calls ?? []).map((made) => ({ role: 'tool', tool_name: made.function.name, content: search(made.function.arguments) }));

function saw(c, { message, done_reason, prompt_eval_count, eval_count }) {
  const calls = callsOf(message);
  return {
    content: message.content,
    reasoning: message.thinking,
    calls,
    finish: done_reason,
    usage: { input: prompt_eval_count, output: eval_count, total: prompt_eval_count + eval_count },
    object: c.form || c.json ? form.parse(JSON.parse(message.content)) : undefined,
  };
}

// gather adds up the parts of a stream, since the client does not.
async function gather(stream) {
  const message = { role: 'assistant', content: '', thinking: '', tool_calls: [] };
  let last;
  for await (const part of stream) {
    message.content += part.message.content;
    message.thinking += part.message.thinking ?? '';
    message.tool_calls.push(...(part.message.tool_calls ?? []));
    last = part;
  }
  return { ...last, message };
}

export const ways = {
  chat: (baseURL, c) => rounds(c, (body) => client(baseURL).chat(body)),
  'chat, stream': (baseURL, c) => rounds(c, async (body) => gather(await client(baseURL).chat({ ...body, stream: true }))),
};

// converse answers the calls of each answer, until there are none.
function converse(ask) {
  const messages = [];
  return async (prompt) => {
    messages.push({ role: 'user', content: prompt });
    for (;;) {
      const { message } = await ask({ model, messages, tools: [{ type: 'function', function: tool }] });
      messages.push(message);
      if (!message.tool_calls?.length) return message.content;
      messages.push(...resultsOf(message));
    }
  };
}

export const talks = {
  chat: (baseURL) => converse((body) => client(baseURL).chat(body)),
  'chat, stream': (baseURL) => converse(async (body) => gather(await client(baseURL).chat({ ...body, stream: true }))),
};

export function describeError(error) {
  return { class: error.name, status: error.status_code, message: error.message };
}
