// What differs between the APIs on the wire: the path, the body of a request for a chat completion,
// and a function that reads the texts of an answer as chunks of one, with done after the end.

import { messagesReader, toMessages } from './messages.js';
import { responsesReader, toResponses } from './responses.js';

const json = (reader) => () => {
  const read = reader();
  return (text) => read(JSON.parse(text));
};

export const wires = {
  chat: { path: '/chat/completions', toBody: (body) => body, reader: () => (text) => (text === '[DONE]' ? { done: true } : JSON.parse(text)) },
  responses: { path: '/responses', toBody: toResponses, reader: json(responsesReader) },
  messages: { path: '/messages', toBody: toMessages, reader: json(messagesReader) },
};
