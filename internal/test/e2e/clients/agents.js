// The Agents SDK, whose runner calls the tools. agents-chat.js and agents-responses.js
// choose the API.
import { Agent, OpenAIProvider, Runner, tool as declare } from '@openai/agents';
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

export function waysOf(useResponses) {
  const run = (baseURL, c, options) =>
    new Runner({
      modelProvider: new OpenAIProvider({ openAIClient: new OpenAI({ baseURL, apiKey, maxRetries: 0 }), useResponses }),
      tracingDisabled: true,
    }).run(agent(c), c.prompt, options);
  return {
    run: async (baseURL, c) => saw(c, await run(baseURL, c)),
    'run, stream': async (baseURL, c) => saw(c, await follow(await run(baseURL, c, { stream: true }))),
  };
}

export function describeError(error) {
  if (error instanceof FailedResponse) return { class: 'FailedResponse', code: error.code, message: error.message };
  return describe(error);
}
