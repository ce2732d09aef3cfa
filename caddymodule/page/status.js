// The view of the state: requests, app-servers and logins, plans, usage, the latest turns.

import { administers, resetCredit, signIn } from './admin.js';
import { byId, column, el, header, problem, svg, table } from './dom.js';
import { age, bytes, clock, counted, named, number, until, words } from './format.js';
import { traceButton } from './trace.js';
import { planWindows } from './windows.js';

const maxRows = 25; // of a table

// showStatus shows the documents of /codex/status or /codex/admin/status, /v1/usage and
// /v1/usage/raw. changed is called when the administrator has changed something.
export function showStatus(status, usage, turns, changed) {
  problem('status-problem', '');
  const total = usage.usage ?? {};
  byId('tiles').replaceChildren(
    ...tile('Running', number(status.turns?.running)),
    ...tile('Waiting', number(status.turns?.waiting)),
    ...tile('Requests', number(usage.requests), usage.errors ? `${number(usage.errors)} failed` : 'none failed'),
    ...tile('Tokens', number(total.total_tokens), `${number(total.prompt_tokens)} in, ${number(total.completion_tokens)} out`),
  );
  replace('requests', [requestsNow(status.requests ?? [])]);
  replace('servers', (status.app_servers ?? []).map((server) => card(server, changed)));
  replace('usage', usageParts(usage));
  replace('recent', [recent(turns.data ?? [], changed)]);
}

const tile = (name, value, note) => [el('div', {}, el('dt', {}, name), el('dd', {}, el('span', { class: 'big' }, value), note && el('span', { class: 'note' }, note)))];

// replace replaces the children of an element. What the person has opened, scrolled or given
// the focus stays so.
function replace(id, children) {
  const all = () => [...byId(id).querySelectorAll('details, summary, .table, .task button, .task a')];
  const key = byId(id).contains(document.activeElement) && document.activeElement.dataset.key;
  const before = all().map((e) => ({ open: e.open, left: e.scrollLeft, focused: e === document.activeElement, text: e.textContent }));
  byId(id).replaceChildren(...children);
  for (const [i, e] of all().entries()) {
    if (before[i]?.open) e.open = true;
    if (before[i]?.left) e.scrollLeft = before[i].left;
    if (before[i]?.focused && (!e.closest('.task') || e.textContent === before[i].text)) e.focus({ preventScroll: true });
  }
  if (key) byId(id).querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

// What a card shows in a place of its own; everything else is in its list.
const placed = new Set(['id', 'state', 'since', 'reason', 'login', 'version', 'notes', 'threads', 'memory_bytes', 'restarts']);
const placedOfLogin = new Set(['state', 'cause', 'reason', 'plan', 'resets_at', 'rests_until', 'meters', 'sign_in']);

function card(server, changed) {
  const login = server.login ?? {};
  const more = flat(without(server, placed));
  return el(
    'article',
    { class: 'card', 'aria-label': `App-server ${server.id}` },
    el('header', {}, el('h3', {}, server.id), pill(server.state, server.state === 'ready' ? 'good' : 'bad')),
    server.reason && el('p', { class: 'reason' }, server.reason),
    facts([
      ['Codex', server.version],
      ['Note', server.notes?.join('; ')],
      ['Since', server.since && age(server.since)],
      ['Login', login.state && pill(words(login.state), { fine: 'good', failing: 'bad', spent: 'bad', signed_out: 'bad' }[login.state] ?? 'plain')],
      ['', login.reason],
      ['Plan', login.plan],
      ['Rests for', login.rests_until && until(login.rests_until)],
      ['Resets', login.resets_at && clock(login.resets_at)],
      ...flat(without(login, placedOfLogin)),
      ['Threads', server.threads],
      ['Memory', server.memory_bytes && bytes(server.memory_bytes)],
      ['Restarts', server.restarts],
    ]),
    ...(login.meters ?? []).flatMap((meter) => (meter.windows ?? []).map((window) => planWindow(meter, window))),
    administers() && resetCredit(server, changed),
    administers() && signIn(server, changed),
    more.length > 0 && el('details', {}, el('summary', {}, 'More'), facts(more)),
  );
}

const without = (object, names) => Object.fromEntries(Object.entries(object).filter(([name]) => !names.has(name)));

const pill = (text, kind) => el('span', { class: `pill ${kind}` }, text);

function facts(rows) {
  const shown = rows.filter(([, value]) => value !== undefined && value !== null && value !== '');
  return el('dl', { class: 'facts' }, ...shown.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value instanceof Node ? value : String(value))]));
}

// planWindow shows what is used of a window of a meter.
function planWindow({ name, spent }, { window, used_percent: used, resets_at: resets, over }) {
  const title = `${name ? `${name}, window` : 'Window'} of ${window}`;
  const left = over ? 'has ended' : `${spent ? 'spent, ' : ''}${Math.round(used)} % used${resets ? `, resets in ${until(resets)}` : ''}`;
  return el(
    'div',
    { class: 'window' },
    el('p', {}, el('span', {}, title), el('span', { class: 'note' }, left)),
    el('meter', { min: '0', max: '100', high: '80', optimum: '0', value: String(over ? 0 : used), 'aria-label': `Used of the ${title}` }),
  );
}

// flat returns the members of an object as rows, with those of objects within it.
function flat(value, prefix = '', depth = 0) {
  return Object.entries(value).flatMap(([name, member]) => {
    const title = prefix ? `${prefix}, ${words(name)}` : words(name);
    if (member && typeof member === 'object') return depth < 3 ? flat(member, title, depth + 1) : [];
    return [[title, /(_at|since)$/.test(name) && member ? clock(member) : /_bytes$/.test(name) ? bytes(member) : member]];
  });
}

// Members of the usage that are shown elsewhere, or say nothing to a person.
const shownUsage = new Set(['object', 'since', 'started', 'requests', 'errors', 'usage', 'turns', 'by_key', 'by_model', 'by_api', 'by_meter', 'by_user', 'by_hour', 'by_day', 'windows', 'rate_limits', 'tool_calls', 'tool_buffer_metrics']);

function usageParts(usage) {
  const more = flat(without(usage, shownUsage));
  return [
    chart(usage.by_hour ?? []),
    el('div', { class: 'cards' }, ...planWindows(usage.windows ?? [])),
    sums('User', usage.by_user),
    sums('Key', usage.by_key),
    sums('Model', usage.by_model),
    sums('API', usage.by_api),
    sums('Meter', usage.by_meter),
    more.length > 0 && facts(more),
  ].filter(Boolean);
}

// sums is a table of the usage by user, by key, and so on, if there is any.
function sums(title, rows = []) {
  if (rows.length === 0) return null;
  const cached = ({ usage: u }) => (u?.prompt_tokens ? `${Math.round((100 * u.cached_tokens) / u.prompt_tokens)} %` : '');
  return sheet(
    `Usage by ${title.toLowerCase()}`,
    [title, 'Requests', 'Failed', 'Tokens in', 'Cached', 'Tokens out'],
    rows.map((row) => [named(row.name), number(row.requests), number(row.errors), number(row.usage?.prompt_tokens), cached(row), number(row.usage?.completion_tokens)]),
  );
}

// requestsNow is the table of the requests that wait, run, or have a turn that is parked.
function requestsNow(requests) {
  if (requests.length === 0) return note('Nothing waits or runs now.');
  return sheet(
    'Requests now',
    ['User', 'State', 'For', 'Model', 'Route', 'Characters', 'App-server'],
    requests.map((r) => [named(r.user), words(r.state), age(r.since), r.choices > 1 ? `${r.model} × ${r.choices}` : r.model, r.route, number(r.characters), r.app_server]),
  );
}

function recent(turns, changed) {
  if (turns.length === 0) return note('No turn has ended yet.');
  const recorded = turns.some((turn) => turn.recorded);
  return sheet(
    'Latest turns',
    ['Time', 'User', 'Model', 'Route', 'Status', 'Seconds', 'Tokens', ...(recorded ? ['Recording'] : [])],
    turns.map((turn) => [
      ...[clock(turn.time), named(turn.user), turn.model, turn.route, turn.code ? `${turn.status} ${turn.code}` : turn.status, turn.duration?.toFixed(1), number(turn.usage?.total_tokens)],
      ...(recorded ? [turn.recorded && traceButton(turn.request_id, changed)] : []),
    ]),
  );
}

// sheet returns a table with a label. The first cell of a row is its header.
function sheet(label, heads, rows) {
  const cells = ([first, ...others]) => [header(first), ...others.map((cell) => el('td', {}, cell))];
  return table(label, heads.map(column), rows.slice(0, maxRows).map(cells), rows.length > maxRows && `The first ${maxRows} of ${rows.length}`);
}

const note = (text) => el('p', { class: 'note' }, text);

const hours = 48;

// chart shows the requests of the last two days, by the hour.
function chart(byHour) {
  const now = Math.floor(Date.now() / 3600000) * 3600;
  const counts = Array.from({ length: hours }, (_, i) => byHour.find((hour) => hour.start === now - (hours - 1 - i) * 3600)?.requests ?? 0);
  const most = Math.max(1, ...counts);
  const text = `${counted(counts.reduce((a, b) => a + b, 0), 'request')} in the last ${hours} hours`;
  const bars = counts.map((count, i) => {
    const height = count === 0 ? 1 : Math.max(3, (count / most) * 60);
    return svg('rect', { x: i * 10 + 1, y: 62 - height, width: 8, height, rx: 1.5, class: count === 0 ? 'none' : 'some' });
  });
  return el('figure', { class: 'chart' }, svg('svg', { viewBox: `0 0 ${hours * 10} 64`, preserveAspectRatio: 'none', role: 'img', 'aria-label': text }, ...bars), el('figcaption', { class: 'note' }, text));
}
