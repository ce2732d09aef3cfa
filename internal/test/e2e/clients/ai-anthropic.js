// The AI SDK with Anthropic's provider.
import { createAnthropic } from '@ai-sdk/anthropic';
import { apiKey } from './shared.js';
import { talksOf, waysOf } from './vercel.js';

globalThis.AI_SDK_LOG_WARNINGS = false; // of a tool choice that it does not send with thinking

const modelAt = (baseURL) => createAnthropic({ baseURL, apiKey })('claude-opus-5-5');

export const ways = waysOf(modelAt);
export const talks = talksOf(modelAt);
export { describeError } from './vercel.js';
