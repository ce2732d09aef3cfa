// The official SDK, asked in four ways.
import OpenAI, { APIError } from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { apiKey, call, form, model, search, tool, toolInput } from './shared.js';

const withUsage = { stream_options: { include_usage: true } };

function completions(baseURL) {
  return new OpenAI({ baseURL, apiKey, maxRetries: 0 }).chat.completions;
}

function request(c) {
  const body = { model, messages: [{ role: 'user', content: c.prompt }] };
  if (c.tools) body.tools = [{ type: 'function', function: tool }];
  if (c.choose) body.tool_choice = { type: 'function', function: { name: tool.name } };
  if (c.form) body.response_format = zodResponseFormat(form, 'form');
  if (c.json) body.response_format = { type: 'json_object' };
  return body;
}

// rounds asks, answers the calls if the case wants it, and asks again.
async function rounds(c, ask) {
  const body = request(c);
  const first = await ask(body);
  if (!c.results) return saw(c, first);
  const { message } = first.choices[0];
  const results = message.tool_calls.map((made) => ({
    role: 'tool',
    tool_call_id: made.id,
    content: search(JSON.parse(made.function.arguments)),
  }));
  const second = await ask({ ...body, messages: [...body.messages, message, ...results] });
  return { ...saw(c, second), calls: callsOf(message) };
}

function saw(c, { choices: [{ message, finish_reason }], usage }) {
  return {
    content: message.content ?? '',
    calls: callsOf(message),
    finish: finish_reason,
    usage: usageOf(usage),
    object: c.form ? message.parsed : c.json ? JSON.parse(message.content) : undefined,
  };
}

function callsOf(message) {
  return (message.tool_calls ?? []).map((made) => call(made.function.name, JSON.parse(made.function.arguments)));
}

function usageOf(usage) {
  return {
    input: usage.prompt_tokens,
    cached: usage.prompt_tokens_details.cached_tokens,
    output: usage.completion_tokens,
    reasoning: usage.completion_tokens_details.reasoning_tokens,
    total: usage.total_tokens,
  };
}

// gather adds up raw chunks as OpenAI's documentation tells, without a helper.
async function gather(stream) {
  const message = { role: '', content: null };
  let finish_reason = null;
  let usage;
  for await (const chunk of stream) {
    usage = chunk.usage ?? usage;
    for (const choice of chunk.choices) {
      finish_reason = choice.finish_reason ?? finish_reason;
      const { role, content, tool_calls } = choice.delta;
      message.role += role ?? '';
      if (typeof content === 'string') message.content = (message.content ?? '') + content;
      for (const part of tool_calls ?? []) addCall((message.tool_calls ??= []), part);
    }
  }
  return { choices: [{ message, finish_reason }], usage };
}

function addCall(calls, part) {
  const known = calls[part.index];
  if (known) known.function.arguments += part.function.arguments ?? '';
  else calls[part.index] = { id: part.id, type: part.type, function: { ...part.function } };
}

// events believes what the stream helper's events tell, and lets the SDK run
// the tools.
async function events(baseURL, c) {
  const seen = { content: '', calls: [] };
  const chat = completions(baseURL);
  const runner = c.results
    ? chat.runTools({ ...request(c), stream: true, ...withUsage, tools: [runnable] })
    : chat.stream({ ...request(c), ...withUsage });
  runner.on('chunk', (chunk) => {
    if (chunk.usage) seen.usage = usageOf(chunk.usage);
    if (chunk.choices[0]?.finish_reason) seen.finish = chunk.choices[0].finish_reason;
  });
  runner.on('content', (delta) => {
    seen.content += delta;
  });
  runner.on('content.done', ({ content, parsed }) => {
    if (c.form) seen.object = parsed;
    if (c.json) seen.object = JSON.parse(content);
  });
  if (c.results) {
    runner.on('functionToolCall', (made) => {
      seen.calls.push(call(made.name, JSON.parse(made.arguments)));
      seen.content = ''; // what counts is the last round
    });
  } else {
    runner.on('tool_calls.function.arguments.done', (made) => {
      seen.calls[made.index] = call(made.name, JSON.parse(made.arguments));
    });
  }
  await runner.done();
  return seen;
}

const runnable = {
  type: 'function',
  function: { ...tool, parse: (text) => toolInput.parse(JSON.parse(text)), function: search },
};

export const ways = {
  create: (baseURL, c) =>
    rounds(c, (body) => (c.form ? completions(baseURL).parse(body) : completions(baseURL).create(body))),
  // The stream alone parses nothing, so that the form is read off its text.
  'create, stream': async (baseURL, c) => {
    const seen = await rounds(c, async (body) =>
      gather(await completions(baseURL).create({ ...body, stream: true, ...withUsage })),
    );
    return c.form ? { ...seen, object: form.parse(JSON.parse(seen.content)) } : seen;
  },
  stream: (baseURL, c) =>
    rounds(c, (body) =>
      completions(baseURL)
        .stream({ ...body, ...withUsage })
        .finalChatCompletion(),
    ),
  events,
};

// converse answers the calls of each answer, until there are none.
function converse(step) {
  const body = { model, messages: [], tools: [{ type: 'function', function: tool }] };
  return async (prompt) => {
    body.messages.push({ role: 'user', content: prompt });
    for (;;) {
      const { message } = (await step(body)).choices[0];
      body.messages.push(message);
      if (!message.tool_calls?.length) return message.content;
      for (const { id, function: made } of message.tool_calls) {
        body.messages.push({ role: 'tool', tool_call_id: id, content: search(JSON.parse(made.arguments)) });
      }
    }
  };
}

export const talks = {
  create: (baseURL) => converse((body) => completions(baseURL).create(body)),
  'create, stream': (baseURL) =>
    converse(async (body) => gather(await completions(baseURL).create({ ...body, stream: true, ...withUsage }))),
  stream: (baseURL) => converse((body) => completions(baseURL).stream(body).finalChatCompletion()),
  runTools: (baseURL) => {
    let messages = [];
    return async (prompt) => {
      messages.push({ role: 'user', content: prompt });
      const runner = completions(baseURL).runTools({ model, messages, tools: [runnable] });
      const answer = await runner.finalContent();
      messages = runner.messages;
      return answer;
    };
  },
};

export function describeError(error) {
  const { name } = error.constructor;
  if (!(error instanceof APIError)) return { class: name, message: error.stack };
  const { status, code, message, headers } = error;
  return { class: name, status, code, message, retryAfter: headers?.get('retry-after') };
}
