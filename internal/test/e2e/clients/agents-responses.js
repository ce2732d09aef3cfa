// The Agents SDK as it is: it speaks the Responses API.
import { waysOf } from './agents.js';

export const ways = waysOf(true);
export { describeError } from './agents.js';
