// The tools of the request: what the person has written, and calls to be answered.

import { byId, problem } from './dom.js';

// readSchema returns the JSON schema that the answer has to follow, undefined if there is none,
// or null if it cannot be read, which is shown.
export function readSchema() {
  const field = byId('schema');
  const text = field.value.trim();
  let schema;
  let wrong = '';
  try {
    schema = text ? JSON.parse(text) : undefined;
    if (text && (typeof schema !== 'object' || !schema || Array.isArray(schema))) wrong = 'A schema is an object.';
  } catch (failure) {
    wrong = `This is no JSON: ${failure.message}`;
  }
  field.setAttribute('aria-invalid', wrong ? 'true' : 'false');
  problem('schema-problem', wrong);
  return wrong ? null : schema;
}

export const exampleSchema = {
  type: 'object',
  properties: { title: { type: 'string' }, year: { type: 'integer' } },
  required: ['title', 'year'],
  additionalProperties: false,
};

export const example = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather in a city',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
    },
  },
};

const note = 'You answer the calls yourself, below the message that makes them.';

// readTools returns the tools of the text, as the API takes them. It shows what is wrong
// and returns null if they cannot be read.
export function readTools() {
  const field = byId('tools');
  const text = field.value.trim();
  const [tools, wrong] = text ? parse(text) : [[], ''];
  field.setAttribute('aria-invalid', wrong ? 'true' : 'false');
  const shown = byId('tools-note');
  shown.textContent = wrong || note;
  shown.classList.toggle('problem', Boolean(wrong));
  return wrong ? null : tools;
}

function parse(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (failure) {
    return [null, `This is no JSON: ${failure.message}`];
  }
  const list = Array.isArray(value) ? value : [value];
  if (!list.every((tool) => tool && typeof tool === 'object')) return [null, 'A tool is an object, or there is a list of them.'];
  const tools = list.map((tool) => (tool.type ? tool : { type: 'function', function: tool }));
  if (tools.some((tool) => tool.type === 'function' && !tool.function?.name)) return [null, 'A function needs a name.'];
  return [tools, ''];
}
