// The request that the options and the conversation make.

import { byId } from './dom.js';
import { currentImages } from './images.js';
import { readSchema, readTools } from './tools.js';

// userMessage returns the message of what is in the composer, or null if it is empty.
export function userMessage() {
  const text = byId('prompt').value.trim();
  const images = currentImages();
  if (!text && images.length === 0) return null;
  if (images.length === 0) return { role: 'user', content: text };
  const parts = images.map((image) => ({ type: 'image_url', image_url: { url: image.url } }));
  return { role: 'user', content: text ? [{ type: 'text', text }, ...parts] : parts };
}

// bare returns a message without what only this page keeps with it.
const bare = ({ meta: _meta, reasoning_content: _reasoning, ...message }) => message;

// buildRequest returns { body, headers } of a chat completion for these messages, or null if an
// option is wrong, which is shown.
export function buildRequest(messages) {
  const tools = readTools();
  const schema = readSchema();
  if (tools === null || schema === null) return null;
  const instructions = byId('instructions').value.trim();
  const body = {
    model: byId('model').value,
    messages: [...(instructions ? [{ role: 'system', content: instructions }] : []), ...messages.map(bare)],
  };
  const n = Math.min(8, Math.max(1, Math.round(Number(byId('choices').value)) || 1));
  if (n > 1) body.n = n;
  if (byId('effort').value) body.reasoning_effort = byId('effort').value;
  if (tools.length > 0) body.tools = tools;
  if (schema) body.response_format = { type: 'json_schema', json_schema: { name: 'answer', schema } };
  const limit = Math.round(Number(byId('limit').value));
  if (limit > 0) body.max_completion_tokens = limit;
  if (byId('stream').checked) {
    body.stream = true;
    body.stream_options = { include_usage: true };
  }
  const mode = byId('mode').value;
  return { body, headers: mode ? { 'x-proxy-output-mode': mode } : {} };
}
