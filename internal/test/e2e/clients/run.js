// Runs clients, one after the other: node run.js BASE_URL CLIENT... <WORK
//
// WORK is JSON with cases, which a client asks in each way that it has, and with the prompts of
// conversations. For each case in each way, and for each conversation, a line with a JSON object
// tells what the client saw. Nothing is judged here: the caller holds all clients to the same table.
import { text } from 'node:stream/consumers';
import { talk } from './talk.js';

// So many requests of a client are under way at once.
const CONCURRENCY = 4;

const [baseURL, ...clients] = process.argv.slice(2);
const { cases, prompts } = JSON.parse(await text(process.stdin));
const complain = console.error;

for (const name of clients) {
  // Standard output is for results; some clients print warnings.
  console.log = console.info = console.warn = console.debug = console.error = complain;
  const client = await import(`./${name}.js`);
  const tell = (saw) => process.stdout.write(`${JSON.stringify({ client: name, ...saw })}\n`);
  const jobs = cases.flatMap((c) => Object.keys(client.ways).map((way) => ({ way, c })));
  const work = async () => {
    for (let job = jobs.shift(); job; job = jobs.shift()) {
      tell({ way: job.way, case: job.c.name, ...(await see(client, job)) });
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
  for (const talked of await talk(name, client.talks, baseURL, prompts)) tell(talked);
}

async function see({ ways, describeError }, { way, c }) {
  const begin = performance.now();
  try {
    return await ways[way](baseURL, c);
  } catch (error) {
    return { error: { ...describeError(error), after: (performance.now() - begin) / 1000 } };
  }
}
