// The Agents SDK over chat completions.
import { waysOf } from './agents.js';

export const ways = waysOf(false);
export { describeError } from './agents.js';
