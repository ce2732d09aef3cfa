// The Agents SDK over chat completions.
import { talksOf, waysOf } from './agents.js';

export const ways = waysOf(false);
export const talks = talksOf(false);
export { describeError } from './agents.js';
