// The AI SDK with OpenAI's provider, which speaks chat completions if asked.
import { createOpenAI } from '@ai-sdk/openai';
import { apiKey, model } from './shared.js';
import { talksOf, waysOf } from './vercel.js';

export const ways = waysOf((baseURL) => createOpenAI({ baseURL, apiKey }).chat(model));
export const talks = talksOf((baseURL) => createOpenAI({ baseURL, apiKey }).chat(model));
export { describeError } from './vercel.js';
