// The AI SDK with its provider for everything that speaks OpenAI's protocol.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { apiKey, model } from './shared.js';
import { waysOf } from './vercel.js';

export const ways = waysOf((baseURL) =>
  createOpenAICompatible({
    name: 'codex',
    baseURL,
    apiKey,
    includeUsage: true,
    supportsStructuredOutputs: true,
  })(model),
);
export { describeError } from './vercel.js';
