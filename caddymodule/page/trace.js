// Recordings of requests: switching them on, and the timeline of one as a picture.

import { call, getJSON } from './api.js';
import { byId, column, copyButton, download, el, header, svg, table } from './dom.js';
import { counted, number, words } from './format.js';

const maxRows = 300;

// showSwitch says on the button for it what of the person's requests is recorded.
export function showSwitch({ switches }) {
  const own = switches.find((s) => s.own);
  byId('record').textContent = own ? `Recording your next ${own.requests === 1 ? 'request' : `${own.requests} requests`}` : 'Record my next 10 requests';
  byId('record').disabled = Boolean(own);
}

export const switchOn = async () => showSwitch(await (await call('codex/trace', { method: 'POST' })).json());

// traceButton returns a button that shows the timeline of a request. failed is called if there is none any more.
export const traceButton = (id, failed) =>
  el('button', { type: 'button', class: 'link', 'data-key': id, 'aria-label': `Timeline of ${id}`, click: () => show(id).catch(failed) }, 'Timeline');

const pathOf = (id) => `codex/trace?id=${encodeURIComponent(id)}`;

async function show(id) {
  const timeline = await getJSON(`${pathOf(id)}&timeline`);
  const back = document.activeElement?.dataset.key;
  const problem = el('p', { class: 'problem', role: 'alert' });
  const dialog = el(
    'dialog',
    {
      class: 'trace',
      'aria-labelledby': 'trace-title',
      close: () => {
        dialog.remove();
        if (back) document.querySelector(`[data-key="${CSS.escape(back)}"]`)?.focus();
      },
    },
    el('h2', { id: 'trace-title' }, `${timeline.head.method} ${timeline.head.path}`),
    el('p', { class: 'note' }, id, ' ', copyButton(() => id)),
    el('p', { class: timeline.code ? 'problem' : 'note' }, [timeline.code, timeline.cause].filter(Boolean).join(': ')),
    picture(timeline),
    rows(timeline),
    problem,
    el(
      'div',
      { class: 'actions' },
      el('span', { class: 'hint' }, timeline.head.texts ? 'The recording has the texts.' : 'The recording has other words in place of the texts.'),
      el('button', { type: 'button', class: 'quiet', click: () => save(id).catch((failure) => (problem.textContent = failure.message)) }, 'Save the recording'),
      el('button', { type: 'button', class: 'main', click: () => dialog.close() }, 'Close'),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
}

const save = async (id) => download(`${id}.jsonl`, 'application/x-ndjson', await getJSON(pathOf(id)));

const said = (ms) => (ms >= 10000 ? `${(ms / 1000).toFixed(1)} s` : `${ms >= 10 ? number(Math.round(ms)) : ms.toFixed(2)} ms`);

// picture shows for each phase when the request was in it, all on the same clock.
function picture({ phases, duration }) {
  const width = 1000;
  const x = (ms) => (duration > 0 ? (width * ms) / duration : 0);
  const names = [...new Set(phases.map((phase) => phase.name))];
  const lines = names.map((name) => {
    const parts = phases.filter((phase) => phase.name === name);
    const sum = parts.reduce((all, { begin, end }) => all + end - begin, 0);
    const bars = parts.map(({ begin, end }) =>
      svg('rect', { x: Math.min(x(begin), width - 2), y: 0, width: Math.max(2, x(end) - x(begin)), height: 10, class: `phase-${name}` }, svg('title', {}, `${words(name)}: ${said(begin)} to ${said(end)}`)),
    );
    const text = `${words(name)}: ${said(sum)}`;
    return [
      el('dt', {}, words(name)),
      el('dd', {}, svg('svg', { viewBox: `0 0 ${width} 10`, preserveAspectRatio: 'none', role: 'img', 'aria-label': text }, svg('rect', { x: 0, y: 0, width, height: 10, class: 'free' }), ...bars), el('span', {}, said(sum))),
    ];
  });
  return el('figure', { class: 'chart' }, el('dl', { class: 'phases' }, ...lines.flat()), el('figcaption', { class: 'note' }, `${said(duration)} from the request to the end`));
}

// What a row is about, by its kind.
const kinds = { from_client: 'Client →', to_server: '→ Codex', from_server: 'Codex →', read: 'Read', parts: 'Output', to_client: '→ Client', note: 'Note', end: 'End' };

function rows({ rows: all }) {
  const several = all.some((row) => row.choice > 0);
  const cells = (row) => [
    header(said(row.at)),
    el('td', {}, kinds[row.kind] ?? row.kind, several && el('span', { class: 'note' }, ` ${row.choice ?? 0}`)),
    el('td', {}, row.text),
  ];
  const more = all.length > maxRows && `The first ${maxRows} of ${counted(all.length, 'row')}; the recording has all.`;
  return table('What happened', ['At', 'What', 'Details'].map(column), all.slice(0, maxRows).map(cells), more);
}
