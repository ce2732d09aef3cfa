// The official SDK, asked for responses in two ways.
import OpenAI from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import { apiKey, call, form, model, search, tool } from './shared.js';

function responses(baseURL) {
  return new OpenAI({ baseURL, apiKey, maxRetries: 0 }).responses;
}

function request(c) {
  const body = { model, input: c.prompt };
  if (c.tools) body.tools = [{ type: 'function', ...tool, strict: false }];
  if (c.choose) body.tool_choice = { type: 'function', name: tool.name };
  if (c.form) body.text = { format: zodTextFormat(form, 'form') };
  if (c.json) body.text = { format: { type: 'json_object' } };
  return body;
}

// rounds asks, answers the calls if the case wants it, and goes on with the
// response that is kept.
async function rounds(c, ask) {
  const first = await ask(request(c));
  if (!c.results) return saw(c, first);
  const outputs = callsIn(first).map((made) => ({
    type: 'function_call_output',
    call_id: made.call_id,
    output: search(JSON.parse(made.arguments)),
  }));
  const second = await ask({ ...request(c), input: outputs, previous_response_id: first.id });
  return { ...saw(c, second), calls: callsOf(first) };
}

function saw(c, response) {
  const { status, incomplete_details, output_text, usage } = response;
  const finish = status === 'incomplete' ? incomplete_details.reason : callsIn(response).length ? 'tool_calls' : 'stop';
  return {
    content: output_text,
    calls: callsOf(response),
    finish: finish === 'max_output_tokens' ? 'length' : finish,
    usage: {
      input: usage.input_tokens,
      cached: usage.input_tokens_details.cached_tokens,
      output: usage.output_tokens,
      reasoning: usage.output_tokens_details.reasoning_tokens,
      total: usage.total_tokens,
    },
    object: c.form ? form.parse(JSON.parse(output_text)) : c.json ? JSON.parse(output_text) : undefined,
  };
}

const callsIn = (response) => response.output.filter((item) => item.type === 'function_call');
const callsOf = (response) => callsIn(response).map((made) => call(made.name, JSON.parse(made.arguments)));

// gather believes the stream helper's snapshot, and holds it to the deltas.
async function gather(stream) {
  const deltas = { text: '', arguments: '' };
  stream.on('response.output_text.delta', ({ delta }) => {
    deltas.text += delta;
  });
  stream.on('response.function_call_arguments.delta', ({ delta }) => {
    deltas.arguments += delta;
  });
  let failed;
  stream.on('response.failed', ({ response }) => {
    failed = response;
  });
  const response = await stream.finalResponse();
  if (failed) throw Object.assign(new FailedResponse(failed.error.message), { code: failed.error.code });
  const whole = callsIn(response).reduce((all, made) => all + made.arguments, '');
  if (deltas.text !== response.output_text || deltas.arguments !== whole) {
    throw new Error(`deltas ${JSON.stringify(deltas)}, response ${JSON.stringify(response)}`);
  }
  return response;
}

class FailedResponse extends Error {}

export const ways = {
  create: (baseURL, c) => rounds(c, (body) => responses(baseURL).create(body)),
  stream: (baseURL, c) => rounds(c, (body) => gather(responses(baseURL).stream(body))),
};

const tools = [{ type: 'function', ...tool, strict: false }];

const answersTo = (response) =>
  callsIn(response).map(({ call_id, arguments: text }) => ({
    type: 'function_call_output',
    call_id,
    output: search(JSON.parse(text)),
  }));

// converse sends the whole conversation each time.
function converse(step) {
  const input = [];
  return async (prompt) => {
    input.push({ role: 'user', content: prompt });
    for (;;) {
      const response = await step({ model, input, tools, store: false, include: ['reasoning.encrypted_content'] });
      input.push(...response.output);
      if (!callsIn(response).length) return response.output_text;
      input.push(...answersTo(response));
    }
  };
}

// follow names the response before instead.
function follow(step) {
  let before;
  return async (prompt) => {
    let input = [{ role: 'user', content: prompt }];
    for (;;) {
      const response = await step({ model, input, tools, previous_response_id: before });
      before = response.id;
      if (!callsIn(response).length) return response.output_text;
      input = answersTo(response);
    }
  };
}

const steps = (baseURL) => ({
  create: (body) => responses(baseURL).create(body),
  stream: (body) => gather(responses(baseURL).stream(body)),
});

export const talks = {
  'items, create': (baseURL) => converse(steps(baseURL).create),
  'items, stream': (baseURL) => converse(steps(baseURL).stream),
  'previous_response_id, create': (baseURL) => follow(steps(baseURL).create),
  'previous_response_id, stream': (baseURL) => follow(steps(baseURL).stream),
};

export function describeError(error) {
  if (error instanceof FailedResponse) return { class: 'FailedResponse', code: error.code, message: error.message };
  const { status, code, message, headers } = error;
  if (!status) return { class: error.constructor.name, message: error.stack };
  return { class: error.constructor.name, status, code, message, retryAfter: headers?.get('retry-after') };
}
