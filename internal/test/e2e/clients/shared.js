// What all clients declare and do alike.
import { z } from 'zod';

export const model = 'gpt-5';
export const apiKey = 'sk-unused';

// The tool, for clients that want a schema and for those that take zod.
export const tool = {
  name: 'localSearch',
  description: 'Search the vault',
  parameters: {
    type: 'object',
    properties: { query: { type: 'string' } },
    required: ['query'],
    additionalProperties: false,
  },
};
export const toolInput = z.object({ query: z.string() });
export const search = ({ query }) => `found: ${query}`;

// The form of a structured answer.
export const form = z.object({ title: z.string(), count: z.number() });

export const call = (name, args) => ({ name, arguments: args });
