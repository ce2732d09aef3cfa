// The Agents SDK, whose runner calls the tools. agents-chat.js and agents-responses.js
// choose the API.
import { Agent, MemorySession, OpenAIProvider, Runner, tool as declare, user } from '@openai/agents';
import OpenAI from 'openai';
import { describeError as describe } from './openai.js';
import { apiKey, call, form, model, search, tool, toolInput } from './shared.js';

function agent(c) {
  const options = { name: 'clerk', model };
  if (c.tools) {
    // A tool that needs an approval ends the run at its calls.
    options.tools = [declare({ ...tool, parameters: toolInput, execute: search, needsApproval: !c.results })];
  }
  if (c.choose) options.modelSettings = { toolChoice: tool.name };
  if (c.form) options.outputType = form;
  return new Agent(options);
}

function saw(c, result) {
  const { output, usage } = result.rawResponses.at(-1);
  const calls = result.newItems.filter((item) => item.type === 'tool_call_item');
  return {
    content: textOf(output),
    calls: calls.map(({ rawItem }) => call(rawItem.name, JSON.parse(rawItem.arguments))),
    usage: {
      input: usage.inputTokens,
      cached: usage.inputTokensDetails[0].cached_tokens,
      output: usage.outputTokens,
      reasoning: usage.outputTokensDetails[0].reasoning_tokens,
      total: usage.totalTokens,
    },
    object: c.form ? result.finalOutput : c.json ? JSON.parse(result.finalOutput) : undefined,
  };
}

function textOf(output) {
  const messages = output.filter((item) => item.type === 'message');
  return messages.flatMap(({ content }) => content.map(({ text }) => text)).join('');
}

// follow reads a stream, and holds the deltas of the last round to its answer.
async function follow(result) {
  let text = '';
  for await (const { type, data } of result) {
    if (type !== 'raw_model_stream_event') continue;
    if (data.type === 'response_started') text = '';
    if (data.type === 'output_text_delta') text += data.delta;
    if (data.event?.type === 'response.failed') throw new FailedResponse(data.event.response.error);
  }
  await result.completed;
  const whole = textOf(result.rawResponses.at(-1).output);
  if (text !== whole) throw new Error(`deltas ${JSON.stringify(text)}, answer ${JSON.stringify(whole)}`);
  return result;
}

// The SDK ends a stream as usual if the response has failed, and passes the event on.
class FailedResponse extends Error {
  constructor({ code, message }) {
    super(message);
    this.code = code;
  }
}

function runnerAt(baseURL, useResponses) {
  const openAIClient = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  return new Runner({ modelProvider: new OpenAIProvider({ openAIClient, useResponses }), tracingDisabled: true });
}

export function waysOf(useResponses) {
  const run = (baseURL, c, options) => runnerAt(baseURL, useResponses).run(agent(c), c.prompt, options);
  return {
    run: async (baseURL, c) => saw(c, await run(baseURL, c)),
    'run, stream': async (baseURL, c) => saw(c, await follow(await run(baseURL, c, { stream: true }))),
  };
}

// talksOf are conversations with the history of each result, or with a session.
export function talksOf(useResponses) {
  const clerk = agent({ tools: true, results: true });
  const converse = (stream) => (baseURL) => {
    let history = [];
    return async (prompt) => {
      const input = [...history, user(prompt)];
      const result = await runnerAt(baseURL, useResponses).run(clerk, input, { stream });
      if (stream) await follow(result);
      history = result.history;
      return result.finalOutput;
    };
  };
  const talks = { run: converse(false), 'run, stream': converse(true) };
  talks.session = (baseURL) => {
    const session = new MemorySession();
    return async (prompt) => (await runnerAt(baseURL, useResponses).run(clerk, prompt, { session })).finalOutput;
  };
  if (useResponses) talks.previousResponseId = following;
  return talks;
}

function following(baseURL) {
  const clerk = agent({ tools: true, results: true });
  let previousResponseId;
  return async (prompt) => {
    const result = await runnerAt(baseURL, true).run(clerk, prompt, { previousResponseId });
    previousResponseId = result.lastResponseId;
    return result.finalOutput;
  };
}

export function describeError(error) {
  if (error instanceof FailedResponse) return { class: 'FailedResponse', code: error.code, message: error.message };
  return describe(error);
}
