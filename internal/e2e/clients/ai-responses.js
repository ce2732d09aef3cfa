// The AI SDK with OpenAI's provider as it is: it speaks the Responses API.
import { createOpenAI } from '@ai-sdk/openai';
import { apiKey, model } from './shared.js';
import { waysOf } from './vercel.js';

export const ways = waysOf((baseURL) => createOpenAI({ baseURL, apiKey })(model));
export { describeError } from './vercel.js';
