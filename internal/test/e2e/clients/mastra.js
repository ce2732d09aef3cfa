// Mastra's agent with its own model router, which calls the tools.
import { Mastra } from '@mastra/core';
import { Agent } from '@mastra/core/agent';
import { createTool } from '@mastra/core/tools';
import { apiKey, call, form, model, search, tool, toolInput } from './shared.js';
import { describeError as describe } from './vercel.js';

function agent(baseURL, c) {
  const { name: id, description } = tool;
  // Without execute the agent stops at the calls.
  const execute = c.results ? async (input) => search(input) : undefined;
  const clerk = new Agent({
    id: 'clerk',
    name: 'clerk',
    instructions: 'You are a clerk.',
    model: { providerId: 'codex', modelId: model, url: baseURL, apiKey },
    maxRetries: 0,
    tools: c.tools ? { [id]: createTool({ id, description, inputSchema: toolInput, execute }) } : {},
  });
  return new Mastra({ agents: { clerk }, logger: false }).getAgent('clerk');
}

function options(c) {
  const options = { maxSteps: 2 };
  if (c.choose) options.toolChoice = { type: 'tool', toolName: tool.name };
  if (c.form) options.structuredOutput = { schema: form };
  return options;
}

// saw has the calls of all rounds.
async function saw(c, result) {
  const [steps, finish, object] = await Promise.all([result.steps, result.finishReason, c.form && result.object]);
  const { text, reasoningText: reasoning, usage } = steps.at(-1);
  return {
    content: text,
    reasoning,
    calls: steps.flatMap(({ toolCalls }) => toolCalls.map(({ payload }) => call(payload.toolName, payload.args))),
    finish: finish.replace('-', '_'),
    usage: {
      input: usage.inputTokens,
      cached: usage.cachedInputTokens,
      output: usage.outputTokens,
      reasoning: usage.reasoningTokens,
      total: usage.totalTokens,
    },
    object: c.json ? JSON.parse(text) : c.form ? object : undefined,
  };
}

// follow reads a stream, and holds the deltas of the last round to its text.
async function follow(result) {
  let text = '';
  for await (const { type, payload } of result.fullStream) {
    if (type === 'step-start') text = '';
    if (type === 'text-delta') text += payload.text;
    if (type === 'error') throw payload.error;
  }
  const { text: whole } = (await result.steps).at(-1);
  if (text !== whole) throw new Error(`deltas ${JSON.stringify(text)}, text ${JSON.stringify(whole)}`);
  return result;
}

export const ways = {
  generate: async (baseURL, c) => saw(c, await agent(baseURL, c).generate(c.prompt, options(c))),
  stream: async (baseURL, c) => saw(c, await follow(await agent(baseURL, c).stream(c.prompt, options(c)))),
};

function converse(step) {
  return (baseURL) => {
    const clerk = agent(baseURL, { tools: true, results: true });
    const messages = [];
    return async (prompt) => {
      messages.push({ role: 'user', content: prompt });
      const result = await step(clerk, messages, { maxSteps: 5 });
      messages.push(...(await result.response).messages);
      return (await result.steps).at(-1).text;
    };
  };
}

export const talks = {
  generate: converse((clerk, messages, options) => clerk.generate(messages, options)),
  stream: converse(async (clerk, messages, options) => follow(await clerk.stream(messages, options))),
};

// describeError reads the AI SDK's errors, of which Mastra has a copy.
export function describeError(error) {
  if (error.code && !error.statusCode) return { class: error.name, code: error.code, message: error.message };
  return describe(error);
}
