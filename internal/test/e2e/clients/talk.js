// Has conversations with one client: node talk.js CLIENT BASE_URL <PROMPTS
//
// PROMPTS is a JSON list. For each way in which the client can have a conversation, each
// of its own, all prompts are asked one after the other, with the history as the client
// keeps it. A line with a JSON object tells what it was answered. MARK in a prompt is
// replaced by the name of the way.
import { text } from 'node:stream/consumers';

console.log = console.info = console.warn = console.debug = console.error;

const [client, baseURL] = process.argv.slice(2);
const { talks } = await import(`./${client}.js`);
const prompts = JSON.parse(await text(process.stdin));

async function talk([way, begin]) {
  const ask = begin(baseURL);
  const answers = [];
  for (const prompt of prompts) answers.push(await ask(prompt.replaceAll('MARK', `${client}, ${way}`)));
  process.stdout.write(`${JSON.stringify({ way, answers })}\n`);
}

await Promise.all(Object.entries(talks).map(talk));
