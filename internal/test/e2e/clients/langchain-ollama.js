// LangChain with Ollama's models.
import { ChatOllama } from '@langchain/ollama';
import { form, model, tool } from './shared.js';
import { callsOf, talksOf, waysOf } from './langchain.js';

function chat(baseURL, c) {
  const llm = new ChatOllama({ model, baseUrl: baseURL.replace(/\/v1$/, ''), maxRetries: 0 });
  if (c.form) return llm.withStructuredOutput(form, { method: 'jsonSchema', includeRaw: true });
  if (c.json) return llm.withStructuredOutput(form, { method: 'jsonMode', includeRaw: true });
  if (!c.tools) return llm;
  return llm.bindTools([{ type: 'function', function: tool }]);
}

function saw(message) {
  const { input_tokens, output_tokens, total_tokens } = message.usage_metadata;
  return {
    content: message.text,
    reasoning: message.additional_kwargs.reasoning_content,
    calls: callsOf(message),
    finish: message.response_metadata.done_reason,
    usage: { input: input_tokens, output: output_tokens, total: total_tokens },
  };
}

export const ways = waysOf(chat, saw);
export const talks = talksOf(chat);

// LangChain passes on the errors of Ollama's client.
export { describeError } from './ollama.js';
