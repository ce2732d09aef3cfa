// The code of a request, for each API in three languages, and the settings of Claude Code. The key is not in it.

import { base, key } from './api.js';
import { toMessages, toResponses } from './bodies.js';
import { byId } from './dom.js';

const url = new URL('v1', base).href;

// Of each API: its path, its body of a request for a chat completion, the SDK, the method that asks,
// and how the answer is read.
const apis = {
  chat: {
    path: '/chat/completions',
    toBody: (body) => body,
    sdk: openai,
    method: 'chat.completions.create',
    python: {
      stream: ['for chunk in answer:', '    for choice in chunk.choices:', '        print(choice.delta.content or "", end="", flush=True)', 'print()'],
      whole: ['for choice in answer.choices:', '    print(choice.message.content)'],
    },
    js: {
      stream: ['for await (const chunk of answer) {', '  for (const choice of chunk.choices) process.stdout.write(choice.delta.content ?? "");', '}', 'console.log();'],
      whole: ['for (const choice of answer.choices) console.log(choice.message.content);'],
    },
  },
  responses: {
    path: '/responses',
    toBody: toResponses,
    sdk: openai,
    method: 'responses.create',
    python: {
      stream: ['for event in answer:', '    if event.type == "response.output_text.delta":', '        print(event.delta, end="", flush=True)', 'print()'],
      whole: ['print(answer.output_text)'],
    },
    js: {
      stream: ['for await (const event of answer) {', '  if (event.type === "response.output_text.delta") process.stdout.write(event.delta);', '}', 'console.log();'],
      whole: ['console.log(answer.output_text);'],
    },
  },
  messages: {
    path: '/messages',
    toBody: toMessages,
    sdk: anthropic,
    method: 'messages.create',
    python: {
      stream: ['for event in answer:', '    if event.type == "content_block_delta" and event.delta.type == "text_delta":', '        print(event.delta.text, end="", flush=True)', 'print()'],
      whole: ['for block in answer.content:', '    if block.type == "text":', '        print(block.text)'],
    },
    js: {
      stream: ['for await (const event of answer) {', '  if (event.delta?.type === "text_delta") process.stdout.write(event.delta.text);', '}', 'console.log();'],
      whole: ['for (const block of answer.content) if (block.type === "text") console.log(block.text);'],
    },
  },
};

const languages = { curl, python, javascript, claude };

// code returns the source text of a request: api is chat, responses or messages, language is
// curl, python or javascript; or claude, for commands that start Claude Code with the model.
export function code(api, language, { body, headers }) {
  return languages[language](apis[api], apis[api].toBody(body), headers, key() !== '');
}

function openai(language, secret) {
  return language === 'python'
    ? ['from openai import OpenAI', `OpenAI(base_url=${JSON.stringify(url)}, api_key=${secret})`]
    : ['import OpenAI from "openai";', `new OpenAI({ baseURL: ${JSON.stringify(url)}, apiKey: ${secret} })`];
}

function anthropic(language, secret) {
  const address = JSON.stringify(url.replace(/\/v1$/, ''));
  return language === 'python'
    ? ['from anthropic import Anthropic', `Anthropic(base_url=${address}, api_key=${secret})`]
    : ['import Anthropic from "@anthropic-ai/sdk";', `new Anthropic({ baseURL: ${address}, apiKey: ${secret} })`];
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function curl({ path }, body, headers, secret) {
  const lines = [`curl ${body.stream ? '-N ' : ''}${quoted(url + path)}`, `-H 'Content-Type: application/json'`];
  if (secret) lines.push('-H "Authorization: Bearer $CODEX_API_KEY"');
  for (const [name, value] of Object.entries(headers)) lines.push(`-H ${quoted(`${name}: ${value}`)}`);
  lines.push(`-d ${quoted(JSON.stringify(body, null, 2))}`);
  return `${lines.join(' \\\n  ')}\n`;
}

function python({ sdk, method, python: read }, body, headers, secret) {
  const args = Object.entries(body).map(([name, value]) => `    ${name}=${literal(value, '    ')},`);
  if (Object.keys(headers).length > 0) args.push(`    extra_headers=${literal(headers, '    ')},`);
  const [imported, client] = sdk('python', secret ? 'os.environ["CODEX_API_KEY"]' : '"unused"');
  return [...(secret ? ['import os', ''] : []), imported, '', `client = ${client}`, `answer = client.${method}(`, ...args, ')', ...(body.stream ? read.stream : read.whole), ''].join('\n');
}

// literal returns a value of JSON as Python writes it.
function literal(value, indent) {
  if (value === true) return 'True';
  if (value === false) return 'False';
  if (value === null) return 'None';
  if (typeof value !== 'object') return JSON.stringify(value);
  const deeper = `${indent}    `;
  const items = Array.isArray(value)
    ? value.map((item) => deeper + literal(item, deeper))
    : Object.entries(value).map(([name, item]) => `${deeper}${JSON.stringify(name)}: ${literal(item, deeper)}`);
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  return items.length === 0 ? open + close : `${open}\n${items.join(',\n')},\n${indent}${close}`;
}

function javascript({ sdk, method, js: read }, body, headers, secret) {
  const options = Object.keys(headers).length > 0 ? `, { headers: ${JSON.stringify(headers)} }` : '';
  const [imported, client] = sdk('javascript', secret ? 'process.env.CODEX_API_KEY' : '"unused"');
  return [imported, '', `const client = ${client};`, `const answer = await client.${method}(${JSON.stringify(body, null, 2)}${options});`, ...(body.stream ? read.stream : read.whole), ''].join('\n');
}

// claude returns commands for a shell. docs/clients/claude-code.md says what the settings are for.
function claude(_api, { model }, _headers, secret) {
  const { window } = byId('model').selectedOptions[0]?.dataset ?? {};
  const settings = {
    ANTHROPIC_BASE_URL: quoted(url.replace(/\/v1$/, '')),
    ANTHROPIC_AUTH_TOKEN: secret ? '"$CODEX_API_KEY"' : 'unused',
    ANTHROPIC_MODEL: quoted(model),
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: 1,
    CLAUDE_CODE_AUTO_MODE_SERVER: 0,
    ...(window ? { CLAUDE_CODE_AUTO_COMPACT_WINDOW: window } : {}),
    CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY: 1,
  };
  return [...Object.entries(settings).map(([name, value]) => `export ${name}=${value}`), 'claude', ''].join('\n');
}
