// LangChain with Anthropic's models.
import { ChatAnthropic } from '@langchain/anthropic';
import { apiKey, form, tool } from './shared.js';
import { callsOf, talksOf, waysOf } from './langchain.js';

function chat(baseURL, c) {
  const llm = new ChatAnthropic({
    model: 'claude-opus-5-5',
    apiKey,
    maxRetries: 0,
    maxTokens: 4096,
    anthropicApiUrl: baseURL.replace(/\/v1$/, ''),
    thinking: { type: 'adaptive' },
  });
  if (c.form || c.json) return llm.withStructuredOutput(form, { method: 'jsonSchema', includeRaw: true });
  if (!c.tools) return llm;
  return llm.bindTools([{ type: 'function', function: tool }], c.choose ? { tool_choice: tool.name } : {});
}

const finishes = { end_turn: 'stop', tool_use: 'tool_calls', max_tokens: 'length' };

function saw(message) {
  const { input_tokens, output_tokens, total_tokens, input_token_details } = message.usage_metadata;
  const blocks = Array.isArray(message.content) ? message.content : [];
  return {
    content: message.text,
    reasoning: blocks.map(({ thinking }) => thinking ?? '').join(''),
    calls: callsOf(message),
    finish: finishes[message.additional_kwargs.stop_reason ?? message.response_metadata.stop_reason],
    usage: { input: input_tokens, cached: input_token_details?.cache_read, output: output_tokens, total: total_tokens },
  };
}

export const ways = waysOf(chat, saw);
export const talks = talksOf(chat);

// LangChain passes on the errors of a copy of Anthropic's SDK.
export function describeError(error) {
  const { status, message, headers } = error;
  const body = error.error;
  if (!status && !body) return { class: error.constructor.name, message: error.stack };
  return { class: error.constructor.name, status, code: body?.error?.type, message, retryAfter: headers?.get?.('retry-after') };
}
