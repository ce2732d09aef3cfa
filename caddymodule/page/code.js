// The code of a request: in three languages with OpenAI's API, and with Anthropic's SDK. The
// key is not in it.

import { base, key } from './api.js';
import { toMessages } from './messages.js';

const url = new URL('v1', base).href;

// code returns the source text of a request.
export function code(language, { body, headers }) {
  return { curl, python, javascript, anthropic }[language](body, headers, key() !== '');
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function curl(body, headers, secret) {
  const lines = [`curl ${body.stream ? '-N ' : ''}${quoted(`${url}/chat/completions`)}`, `-H 'Content-Type: application/json'`];
  if (secret) lines.push('-H "Authorization: Bearer $CODEX_API_KEY"');
  for (const [name, value] of Object.entries(headers)) lines.push(`-H ${quoted(`${name}: ${value}`)}`);
  lines.push(`-d ${quoted(JSON.stringify(body, null, 2))}`);
  return `${lines.join(' \\\n  ')}\n`;
}

function python(body, headers, secret) {
  const args = Object.entries(body).map(([name, value]) => `    ${name}=${literal(value, '    ')},`);
  if (Object.keys(headers).length > 0) args.push(`    extra_headers=${literal(headers, '    ')},`);
  const read = body.stream
    ? ['for chunk in answer:', '    for choice in chunk.choices:', '        print(choice.delta.content or "", end="", flush=True)', 'print()']
    : ['for choice in answer.choices:', '    print(choice.message.content)'];
  return [
    ...(secret ? ['import os', ''] : []),
    'from openai import OpenAI',
    '',
    `client = OpenAI(base_url=${JSON.stringify(url)}, api_key=${secret ? 'os.environ["CODEX_API_KEY"]' : '"unused"'})`,
    'answer = client.chat.completions.create(',
    ...args,
    ')',
    ...read,
    '',
  ].join('\n');
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

function javascript(body, headers, secret) {
  const options = Object.keys(headers).length > 0 ? `, { headers: ${JSON.stringify(headers)} }` : '';
  const read = body.stream
    ? ['for await (const chunk of answer) {', '  for (const choice of chunk.choices) process.stdout.write(choice.delta.content ?? "");', '}', 'console.log();']
    : ['for (const choice of answer.choices) console.log(choice.message.content);'];
  return [
    'import OpenAI from "openai";',
    '',
    `const client = new OpenAI({ baseURL: ${JSON.stringify(url)}, apiKey: ${secret ? 'process.env.CODEX_API_KEY' : '"unused"'} });`,
    `const answer = await client.chat.completions.create(${JSON.stringify(body, null, 2)}${options});`,
    ...read,
    '',
  ].join('\n');
}

function anthropic(body, headers, secret) {
  const options = Object.keys(headers).length > 0 ? `, { headers: ${JSON.stringify(headers)} }` : '';
  const read = body.stream
    ? ['for await (const event of answer) {', '  if (event.delta?.type === "text_delta") process.stdout.write(event.delta.text);', '}', 'console.log();']
    : ['for (const block of answer.content) if (block.type === "text") console.log(block.text);'];
  return [
    'import Anthropic from "@anthropic-ai/sdk";',
    '',
    `const client = new Anthropic({ baseURL: ${JSON.stringify(url.replace(/\/v1$/, ''))}, apiKey: ${secret ? 'process.env.CODEX_API_KEY' : '"unused"'} });`,
    `const answer = await client.messages.create(${JSON.stringify(toMessages(body), null, 2)}${options});`,
    ...read,
    '',
  ].join('\n');
}
