// Runs cases with one client: node run.js CLIENT BASE_URL <CASES
//
// CASES is a JSON list. For each case and each way in which the client can ask,
// a line with a JSON object tells what the client saw. Nothing is judged here:
// all clients are held to the same table by the caller.
import { text } from 'node:stream/consumers';

// Standard output is for results; some clients print warnings.
console.log = console.info = console.warn = console.debug = console.error;

// So many requests of a client are under way at once.
const CONCURRENCY = 4;

const [client, baseURL] = process.argv.slice(2);
const { ways, describeError } = await import(`./${client}.js`);
const cases = JSON.parse(await text(process.stdin));

const jobs = cases.flatMap((c) => Object.keys(ways).map((way) => ({ way, c })));

async function work() {
  for (let job = jobs.shift(); job; job = jobs.shift()) {
    const saw = await see(job);
    process.stdout.write(`${JSON.stringify({ way: job.way, case: job.c.name, ...saw })}\n`);
  }
}

async function see({ way, c }) {
  try {
    return await ways[way](baseURL, c);
  } catch (error) {
    return { error: describeError(error) };
  }
}

await Promise.all(Array.from({ length: CONCURRENCY }, work));
