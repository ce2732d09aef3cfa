// The AI SDK, whatever provider its models are from.
import { APICallError, generateObject, generateText, stepCountIs, streamObject, streamText, tool as declare } from 'ai';
import { call, form, search, tool, toolInput } from './shared.js';

function request(model, c) {
  const options = { model, prompt: c.prompt, maxRetries: 0 };
  if (c.tools) {
    // Without execute the SDK stops at the calls, as a client with a user interface.
    const execute = c.results ? search : undefined;
    options.tools = { [tool.name]: declare({ description: tool.description, inputSchema: toolInput, execute }) };
    options.stopWhen = stepCountIs(2);
  }
  if (c.choose) options.toolChoice = { type: 'tool', toolName: tool.name };
  if (c.form) options.schema = form;
  if (c.json) options.output = 'no-schema';
  return options;
}

async function generate(model, c) {
  if (c.form || c.json) {
    const { object, finishReason, usage } = await generateObject(request(model, c));
    return { ...ending(finishReason, usage), content: JSON.stringify(object), calls: [], object };
  }
  const result = await generateText(request(model, c));
  return {
    ...ending(result.finishReason, result.steps.at(-1).usage), // of the last round
    content: result.text,
    reasoning: result.reasoningText,
    calls: result.steps.flatMap((step) => step.toolCalls.map(callOf)),
  };
}

async function stream(model, c) {
  return c.form || c.json ? streamForm(model, c) : streamParts(model, c);
}

async function streamParts(model, c) {
  const seen = { calls: [], reasoning: '' };
  // The parts have the error; without a handler the SDK would print it, too.
  const result = streamText({ ...request(model, c), onError() {} });
  for await (const part of result.fullStream) {
    switch (part.type) {
      case 'start-step':
        seen.content = seen.reasoning = ''; // what counts is the last round
        break;
      case 'text-delta':
        seen.content += part.text;
        break;
      case 'reasoning-delta':
        seen.reasoning += part.text;
        break;
      case 'tool-call':
        seen.calls.push(callOf(part));
        break;
      case 'finish-step':
        Object.assign(seen, ending(part.finishReason, part.usage));
        break;
      case 'error':
        throw part.error;
    }
  }
  return seen;
}

async function streamForm(model, c) {
  const result = streamObject({ ...request(model, c), onError() {} });
  let content = '';
  for await (const part of result.fullStream) {
    if (part.type === 'error') throw part.error;
    if (part.type === 'text-delta') content += part.textDelta;
  }
  const object = await result.object;
  return { ...ending(await result.finishReason, await result.usage), content, calls: [], object };
}

const callOf = ({ toolName, input }) => call(toolName, input);

// ending has the finish reason in OpenAI's spelling: the SDK has its own for
// all of its providers.
function ending(finishReason, usage) {
  return {
    finish: finishReason.replace('-', '_'),
    usage: {
      input: usage.inputTokens,
      cached: usage.inputTokenDetails.cacheReadTokens,
      output: usage.outputTokens,
      reasoning: usage.outputTokenDetails.reasoningTokens,
      total: usage.totalTokens,
    },
  };
}

// waysOf are those of a provider: it makes a model for a base URL.
export function waysOf(modelAt) {
  return {
    generate: (baseURL, c) => generate(modelAt(baseURL, c), c),
    stream: (baseURL, c) => stream(modelAt(baseURL, c), c),
  };
}

// talksOf are conversations with the messages that the SDK gives of each answer.
export function talksOf(modelAt) {
  const converse = (step) => (baseURL) => {
    const messages = [];
    const options = {
      model: modelAt(baseURL),
      messages,
      maxRetries: 0,
      tools: { [tool.name]: declare({ description: tool.description, inputSchema: toolInput, execute: search }) },
      stopWhen: stepCountIs(5),
    };
    return async (prompt) => {
      messages.push({ role: 'user', content: prompt });
      const result = await step(options);
      messages.push(...(await result.response).messages);
      return result.text;
    };
  };
  return { generateText: converse(generateText), streamText: converse(drain) };
}

async function drain(options) {
  const result = streamText(options);
  await result.consumeStream();
  return result;
}

export function describeError(error) {
  if (APICallError.isInstance(error)) {
    return {
      class: error.name,
      status: error.statusCode,
      code: error.data?.error?.code,
      message: error.message,
      retryAfter: error.responseHeaders?.['retry-after'],
    };
  }
  // An error within a stream is passed on as it came: it is no Error.
  if (!(error instanceof Error)) return { class: typeof error, code: error.code, message: error.message ?? `${error}` };
  return { class: error.name, message: error.stack };
}
