// Anthropic's SDK, asked for messages in three ways.
import Anthropic, { APIError } from '@anthropic-ai/sdk';
import { apiKey, call, form, search, tool } from './shared.js';

const model = 'claude-opus-5-5';

export const client = (baseURL) => new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ''), apiKey, maxRetries: 0 });

const declared = { name: tool.name, description: tool.description, input_schema: tool.parameters };

const schema = {
  type: 'object',
  properties: { title: { type: 'string' }, count: { type: 'number' } },
  required: ['title', 'count'],
  additionalProperties: false,
};

function request(c) {
  const body = { model, max_tokens: 4096, thinking: { type: 'adaptive' }, messages: [{ role: 'user', content: c.prompt }] };
  if (c.tools) body.tools = [declared];
  if (c.choose) body.tool_choice = { type: 'tool', name: tool.name };
  if (c.form) body.output_config = { format: { type: 'json_schema', schema } };
  return body;
}

// rounds asks, answers the calls if the case wants it, and asks again.
async function rounds(c, ask) {
  const body = request(c);
  const first = await ask(body);
  if (!c.results) return saw(c, first);
  const answers = { role: 'user', content: resultsOf(first) };
  const second = await ask({ ...body, messages: [...body.messages, { role: 'assistant', content: first.content }, answers] });
  return { ...saw(c, second), calls: callsOf(first) };
}

const callsIn = ({ content }) => content.filter(({ type }) => type === 'tool_use');
const callsOf = (message) => callsIn(message).map(({ name, input }) => call(name, input));
const resultsOf = (message) =>
  callsIn(message).map(({ id, input }) => ({ type: 'tool_result', tool_use_id: id, content: search(input) }));
const joined = ({ content }, kind) => content.map((block) => (block.type === kind ? block[kind] : '')).join('');

const finishes = { end_turn: 'stop', tool_use: 'tool_calls', max_tokens: 'length' };

function saw(c, message) {
  const { usage } = message;
  const input = usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;
  const content = joined(message, 'text');
  return {
    content,
    reasoning: joined(message, 'thinking'),
    calls: callsOf(message),
    finish: finishes[message.stop_reason],
    usage: {
      input,
      cached: usage.cache_read_input_tokens,
      output: usage.output_tokens,
      reasoning: usage.output_tokens_details.thinking_tokens,
      total: input + usage.output_tokens,
    },
    object: c.form ? form.parse(JSON.parse(content)) : c.json ? JSON.parse(content) : undefined,
  };
}

// gather adds up raw events as Anthropic's documentation tells, without a helper.
async function gather(stream) {
  let message;
  for await (const event of stream) {
    const block = message?.content[event.index];
    switch (event.type) {
      case 'message_start':
        message = event.message;
        break;
      case 'content_block_start':
        message.content.push({ ...event.content_block, json: '' });
        break;
      case 'content_block_delta':
        if (event.delta.type === 'text_delta') block.text += event.delta.text;
        if (event.delta.type === 'thinking_delta') block.thinking += event.delta.thinking;
        if (event.delta.type === 'signature_delta') block.signature += event.delta.signature;
        if (event.delta.type === 'input_json_delta') block.json += event.delta.partial_json;
        break;
      case 'content_block_stop':
        if (block.type === 'tool_use') block.input = JSON.parse(block.json || '{}');
        delete block.json;
        break;
      case 'message_delta':
        Object.assign(message, event.delta, { usage: { ...message.usage, ...event.usage } });
    }
  }
  return message;
}

export const ways = {
  create: (baseURL, c) => rounds(c, (body) => client(baseURL).messages.create(body)),
  'create, stream': (baseURL, c) =>
    rounds(c, async (body) => gather(await client(baseURL).messages.create({ ...body, stream: true }))),
  stream: (baseURL, c) => rounds(c, (body) => client(baseURL).messages.stream(body).finalMessage()),
};

// converse answers the calls of each answer, until there are none.
function converse(step) {
  const body = { model, max_tokens: 4096, thinking: { type: 'adaptive' }, messages: [], tools: [declared] };
  return async (prompt) => {
    body.messages.push({ role: 'user', content: prompt });
    for (;;) {
      const message = await step(body);
      body.messages.push({ role: 'assistant', content: message.content });
      if (message.stop_reason !== 'tool_use') return joined(message, 'text');
      body.messages.push({ role: 'user', content: resultsOf(message) });
    }
  };
}

const runnable = { ...declared, run: search, parse: (input) => input };

export const talks = {
  create: (baseURL) => converse((body) => client(baseURL).messages.create(body)),
  stream: (baseURL) => converse((body) => client(baseURL).messages.stream(body).finalMessage()),
  // It asks for a message thread first, and sends the whole history once that is declined.
  toolRunner: (baseURL) => {
    const messages = [];
    return async (prompt) => {
      messages.push({ role: 'user', content: prompt });
      const runner = client(baseURL).beta.messages.toolRunner({ model, max_tokens: 4096, messages: [...messages], tools: [runnable] });
      const message = await runner.runUntilDone();
      messages.splice(0, Infinity, ...runner.params.messages);
      return joined(message, 'text');
    };
  },
};

export function describeError(error) {
  if (!(error instanceof APIError)) return { class: error.constructor.name, message: error.stack };
  const { status, error: body, message, headers } = error;
  return {
    class: error.constructor.name,
    status,
    code: body?.error?.type,
    message,
    retryAfter: headers?.get('retry-after'),
  };
}
