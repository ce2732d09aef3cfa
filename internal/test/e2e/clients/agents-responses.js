// The Agents SDK as it is: it speaks the Responses API.
import { talksOf, waysOf } from './agents.js';

export const ways = waysOf(true);
export const talks = talksOf(true);
export { describeError } from './agents.js';
