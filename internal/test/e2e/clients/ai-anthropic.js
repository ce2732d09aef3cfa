// The AI SDK with Anthropic's provider.
import { createAnthropic } from '@ai-sdk/anthropic';
import { apiKey } from './shared.js';
import { talksOf, waysOf } from './vercel.js';

// It warns that Anthropic's models know no JSON without a schema, which one case asks for.
globalThis.AI_SDK_LOG_WARNINGS = ({ warnings }) => {
  for (const warning of warnings) if (warning.feature !== 'responseFormat') console.error(warning);
};

// Other models do not get a tool choice from it.
const modelAt = (baseURL) => createAnthropic({ baseURL, apiKey })('claude-haiku-5-5');

export const ways = waysOf(modelAt);
export const talks = talksOf(modelAt);
export { describeError } from './vercel.js';
