// LlamaIndex: its model of OpenAI's, and its agent, which calls the tools.
import { OpenAI } from '@llamaindex/openai';
import { agent, agentInputEvent, agentStreamEvent, agentToolCallEvent } from '@llamaindex/workflow';
import { createMemory, tool as declare } from 'llamaindex';
import { apiKey, call, form, model, search, tool, toolInput } from './shared.js';

const modelAt = (baseURL) => new OpenAI({ model, apiKey, baseURL, maxRetries: 0 });
const tools = (c) => (c.tools ? [declare({ ...tool, parameters: toolInput, execute: search })] : undefined);

function request(c) {
  const options = { messages: [{ role: 'user', content: c.prompt }], tools: tools(c) };
  if (c.choose) options.additionalChatOptions = { tool_choice: { type: 'function', function: { name: tool.name } } };
  if (c.form) options.responseFormat = form;
  if (c.json) options.responseFormat = { type: 'json_object' };
  return options;
}

// An input may be JSON or what it says.
const callOf = ({ name, input }) => call(name, typeof input === 'string' ? JSON.parse(input) : input);

const objectIn = (c, content) => (c.form ? form.parse(JSON.parse(content)) : c.json ? JSON.parse(content) : undefined);

async function chat(baseURL, c) {
  const { raw, message } = await modelAt(baseURL).chat(request(c));
  const { prompt_tokens, completion_tokens, total_tokens, prompt_tokens_details, completion_tokens_details } = raw.usage;
  return {
    content: message.content,
    calls: (message.options?.toolCall ?? []).map(callOf),
    finish: raw.choices[0].finish_reason,
    usage: {
      input: prompt_tokens,
      cached: prompt_tokens_details.cached_tokens,
      output: completion_tokens,
      reasoning: completion_tokens_details.reasoning_tokens,
      total: total_tokens,
    },
    object: objectIn(c, message.content),
  };
}

// stream gathers calls by their ids: a chunk has the last state of one.
async function stream(baseURL, c) {
  let content = '';
  let finish;
  const calls = new Map();
  for await (const { raw, delta, options } of await modelAt(baseURL).chat({ ...request(c), stream: true })) {
    content += delta;
    finish = raw.choices[0]?.finish_reason ?? finish;
    for (const made of options?.toolCall ?? []) calls.set(made.id, made);
  }
  return { content, finish, calls: [...calls.values()].map(callOf), object: objectIn(c, content) };
}

// runAgent has the agent answer the calls.
async function runAgent(baseURL, c) {
  const seen = { content: '', calls: [] };
  for await (const event of agent({ llm: modelAt(baseURL), tools: tools(c) }).runStream(c.prompt)) {
    if (agentInputEvent.include(event)) seen.content = ''; // what counts is the last round
    if (agentStreamEvent.include(event)) {
      seen.content += event.data.delta;
      seen.finish = event.data.raw.choices[0]?.finish_reason ?? seen.finish;
    }
    if (agentToolCallEvent.include(event)) seen.calls.push(call(event.data.toolName, event.data.toolKwargs));
  }
  return seen;
}

export const ways = {
  chat: (baseURL, c) => (c.results ? runAgent(baseURL, c) : chat(baseURL, c)),
  stream: (baseURL, c) => (c.results ? runAgent(baseURL, c) : stream(baseURL, c)),
};

export const talks = {
  run: (baseURL) => {
    const clerk = agent({ llm: modelAt(baseURL), tools: tools({ tools: true }), memory: createMemory() });
    return async (prompt) => (await clerk.run(prompt)).data.message.content;
  },
};

// It has an older copy of the official SDK, whose errors it passes on.
export function describeError(error) {
  const { status, code, message, headers } = error;
  if (!headers && !code) return { class: error.constructor.name, message: error.stack };
  return { class: error.constructor.name, status, code, message, retryAfter: headers?.get('retry-after') };
}
