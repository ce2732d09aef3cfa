// A session that does not end: node endless.js KIND BASE_URL LIMIT MODEL CLAUDE
//
// Each line of the input is a prompt as JSON, each line of the output {"answer": TEXT} or {"error":
// TEXT}. The history is made short in the way KIND when it has more than LIMIT tokens. CLAUDE is the
// program that the Agent SDK runs.
import { execSync } from 'node:child_process';
import { createInterface } from 'node:readline';
import { query } from '@anthropic-ai/claude-agent-sdk';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { apiKey } from './shared.js';

const [kind, gateway, limit, model, claude] = process.argv.slice(2);
const threshold = Number(limit);

// Anthropic's API takes no lower one; the model's window may be smaller.
const LEAST_TRIGGER = 50_000;

const name = 'run_command';
const description = 'Runs a command in a shell.';
const schema = { type: 'object', properties: { command: { type: 'string' } }, required: ['command'], additionalProperties: false };
const instructions = 'Do what the user asks for. Run commands when that helps.\n'.repeat(400); // as long as an agent's
const run = ({ command }) => execSync(command, { encoding: 'utf8' });

// responses asks with new items until no call is left, by way of a step that keeps the history.
function responses(begin) {
  const client = new OpenAI({ baseURL: `${gateway}/v1`, apiKey, maxRetries: 0 });
  const common = { model, instructions, tools: [{ type: 'function', name, description, parameters: schema, strict: false }] };
  const step = begin(client, common);
  return async (prompt) => {
    for (let items = [{ role: 'user', content: prompt }]; ; ) {
      const { status, error, output, output_text } = await step(items);
      if (status !== 'completed') throw new Error(`the response is ${status}: ${JSON.stringify(error)}`);
      const calls = output.filter(({ type }) => type === 'function_call');
      if (calls.length === 0) return output_text;
      items = calls.map(({ call_id, arguments: input }) => ({ type: 'function_call_output', call_id, output: run(JSON.parse(input)) }));
    }
  };
}

// overSocket asks over a WebSocket of its own, and returns the whole response.
async function overSocket(client, body) {
  const socket = new ResponsesWS(client);
  try {
    socket.send({ type: 'response.create', ...body });
    for await (const { type, message, error } of socket.stream()) {
      if (type === 'error') throw error;
      if (['response.completed', 'response.failed', 'response.incomplete'].includes(message?.type)) {
        const { response } = message;
        const texts = response.output.flatMap(({ content }) => content ?? []);
        return { ...response, output_text: texts.map(({ text }) => text ?? '').join('') };
      }
    }
    throw new Error('the socket was closed');
  } finally {
    socket.close();
  }
}

const context_management = [{ type: 'compaction', compact_threshold: threshold }];

const kinds = {
  // The client has the history, and forgets what is before the last item with a summary.
  openai: () =>
    responses((client, common) => {
      let history = [];
      return async (items) => {
        history.push(...items);
        const response = await client.responses.create({ ...common, context_management, store: false, input: history });
        const summary = response.output.findLastIndex(({ type }) => type === 'compaction');
        history = summary < 0 ? [...history, ...response.output] : response.output.slice(summary);
        return response;
      };
    }),

  'openai-stored': () =>
    responses((client, common) => {
      let previous_response_id;
      return async (input) => {
        const response = await client.responses.create({ ...common, context_management, input, previous_response_id });
        previous_response_id = response.id;
        return response;
      };
    }),

  'openai-socket': () =>
    responses((client, common) => {
      let previous_response_id;
      return async (input) => {
        const response = await overSocket(client, { ...common, context_management, input, previous_response_id });
        previous_response_id = response.id;
        return response;
      };
    }),

  'openai-compact': () =>
    responses((client, common) => {
      let history = [];
      let used = 0;
      return async (items) => {
        history.push(...items);
        if (used > threshold) history = (await client.responses.compact({ model, instructions, input: history })).output;
        const response = await client.responses.create({ ...common, store: false, input: history });
        history.push(...response.output);
        used = response.usage.total_tokens;
        return response;
      };
    }),

  anthropic: () => {
    const { messages } = new Anthropic({ baseURL: gateway, apiKey, maxRetries: 0 }).beta;
    const edits = [{ type: 'compact_20260112', trigger: { type: 'input_tokens', value: Math.max(threshold, LEAST_TRIGGER) } }];
    const tools = [{ name, description, input_schema: schema }];
    const common = { model, max_tokens: 4096, system: instructions, tools, betas: ['compact-2026-01-12'], context_management: { edits } };
    let history = [];
    return async (prompt) => {
      for (let content = prompt; ; ) {
        history.push({ role: 'user', content });
        const message = await messages.stream({ ...common, messages: history }).finalMessage();
        if (message.content.some(({ type }) => type === 'compaction')) history = [];
        history.push({ role: 'assistant', content: message.content });
        const calls = message.content.filter(({ type }) => type === 'tool_use');
        if (calls.length === 0) return message.content.map(({ text }) => text ?? '').join('');
        content = calls.map(({ id, input }) => ({ type: 'tool_result', tool_use_id: id, content: run(input) }));
      }
    };
  },

  agent: () => {
    let session;
    return async (prompt) => {
      const options = { pathToClaudeCodeExecutable: claude, resume: session, allowedTools: ['Bash'] };
      for await (const message of query({ prompt, options })) {
        if (message.type !== 'result') continue;
        session = message.session_id;
        if (message.is_error) throw new Error(`${message.subtype}: ${message.result ?? message.errors}`);
        return message.result;
      }
      throw new Error('there is no result');
    };
  },
};

const ask = kinds[kind]();
for await (const line of createInterface({ input: process.stdin })) {
  const said = await ask(JSON.parse(line)).then(
    (answer) => ({ answer }),
    (error) => ({ error: error.stack }),
  );
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
