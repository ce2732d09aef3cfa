// The AI SDK with its provider for everything that speaks OpenAI's protocol.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { apiKey, model } from './shared.js';
import { talksOf, waysOf } from './vercel.js';

const modelAt = (baseURL) =>
  createOpenAICompatible({
    name: 'codex',
    baseURL,
    apiKey,
    includeUsage: true,
    supportsStructuredOutputs: true,
  })(model);

export const ways = waysOf(modelAt);
export const talks = talksOf(modelAt);
export { describeError } from './vercel.js';
