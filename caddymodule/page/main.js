// The page as a whole: its views and panes, the key, and what is asked of the server.

import { administer, administers, setAdminKey } from './admin.js';
import { followAddress, showAddress } from './addresses.js';
import { ApiError, getJSON, key, setKey } from './api.js';
import { busy, clear, leave, onChat, send, shownRequest, stop } from './chat.js';
import { code } from './code.js';
import { byId, copy, el, focusPrompt, onEnter, problem } from './dom.js';
import { number } from './format.js';
import { addImages, onImages } from './images.js';
import { askForgetAll, onOpen, saveFound, showHistory } from './keptpane.js';
import { lend, optionsInUse, resetOptions } from './options.js';
import { showStatus } from './status.js';
import { showSwitch, switchOn } from './trace.js';
import { example, exampleSchema } from './tools.js';

const narrow = matchMedia('(max-width: 959px)');

// Views

function showView() {
  const view = location.hash === '#status' ? 'status' : 'playground';
  document.body.dataset.view = view;
  for (const name of ['playground', 'status']) {
    byId(name).hidden = name !== view;
    if (name === view) byId(`to-${name}`).setAttribute('aria-current', 'page');
    else byId(`to-${name}`).removeAttribute('aria-current');
  }
  if (view === 'playground') followAddress();
  refresh();
}

// Panes

const panes = ['chat', 'options', 'events', 'code', 'history'];
let pane = 'chat';

function showPane(name) {
  pane = name;
  const shown = !narrow.matches && pane === 'chat' ? 'options' : pane;
  document.body.dataset.pane = shown;
  for (const other of panes) {
    const selected = other === shown;
    byId(`tab-${other}`).setAttribute('aria-selected', String(selected));
    byId(`tab-${other}`).tabIndex = selected ? 0 : -1;
    byId(other).hidden = !selected && (other !== 'chat' || narrow.matches);
  }
  if (shown === 'code') showCode();
  if (shown === 'history') showHistory();
}

function movePane(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const shown = narrow.matches ? panes : panes.slice(1);
  const next = shown[(shown.indexOf(document.body.dataset.pane) + step + shown.length) % shown.length];
  showPane(next);
  byId(`tab-${next}`).focus();
  event.preventDefault();
}

// Code

const chosen = { api: 'chat', language: 'curl' };
const longURL = /data:[a-z]+\/[a-z+]+;base64,[A-Za-z0-9+/=]{80,}/g;

function showCode() {
  for (const [name, value] of Object.entries(chosen)) {
    for (const button of document.querySelectorAll(`[data-${name}]`)) button.setAttribute('aria-pressed', String(button.dataset[name] === value));
  }
  const request = shownRequest();
  const text = request ? code(chosen.api, chosen.language, request) : '';
  const shown = text.replace(longURL, (url) => `${url.slice(0, 40)}…`);
  byId('code-text').textContent = shown;
  byId('copy').disabled = !request;
  const notes = [
    !request && 'The tools or the schema are no JSON yet.',
    key() && 'The key is expected in the variable CODEX_API_KEY.',
    shown !== text && 'Images are shortened here; Copy has them whole.',
  ];
  byId('code-note').textContent = notes.filter(Boolean).join(' ');
}

function copyCode() {
  const request = shownRequest();
  if (request) copy(byId('copy'), code(chosen.api, chosen.language, request));
}

// Options

function showInUse() {
  const inUse = optionsInUse();
  byId('in-use').hidden = inUse.length === 0;
  byId('show-options').textContent = inUse.join(', ');
  byId('show-options').setAttribute('aria-label', `Options: ${inUse.join(', ')}`);
}

// Key

function askKey(wrong) {
  const dialog = byId('key-dialog');
  problem('key-problem', wrong && key() ? 'The server does not know this key, or it has expired.' : '');
  const why = refused || wrong ? 'This site asks for a key.' : key() ? 'Requests are sent with this key.' : 'This site has not asked for a key.';
  byId('key-why').textContent = `${why} It is kept in this tab until you close it, and sent to this site only.`;
  byId('key').value = key();
  byId('key-forget').hidden = !key();
  if (!dialog.open) dialog.showModal();
  byId('key').select();
}

function useKey(value) {
  setKey(value.trim());
  refused = false;
  byId('key-dialog').close();
  showKey();
  models();
  refresh();
}

// Administration

function askAdminKey(why = '') {
  problem('admin-problem', why);
  byId('admin-key').value = '';
  if (!byId('admin-dialog').open) byId('admin-dialog').showModal();
}

function useAdminKey(value) {
  setAdminKey(value);
  byId('admin-dialog').close();
  byId('open-admin').textContent = administers() ? 'Stop administering' : 'Administer';
  refresh();
}

// administered returns the state as the administrator sees it.
async function administered() {
  try {
    return await administer('status');
  } catch (failure) {
    if (failure.status !== 401) throw failure;
    useAdminKey('');
    askAdminKey('The server does not know this admin key.');
    return getJSON('codex/status');
  }
}

// tellScheme has the button say which colours there are.
function tellScheme([sign, name]) {
  byId('scheme').textContent = sign;
  byId('scheme').setAttribute('aria-label', `Colours: ${name}`);
}

function showKey() {
  byId('open-key').textContent = key() ? 'Key ✓' : 'Key';
  byId('open-key').setAttribute('aria-label', key() ? 'API key: set' : 'API key: none');
}

// What is asked of the server

let refused = false; // whether the server asks for another key; until then it is asked nothing

function failed(failure) {
  const error = failure instanceof ApiError ? failure : new ApiError(0, { message: String(failure.message) });
  if (error.status === 401) {
    setHealth('bad', 'Key needed');
    if (!refused) askKey(true);
    refused = true;
  } else {
    setHealth('bad', error.status ? `Error ${error.status}` : 'No connection');
  }
  problem('status-problem', error.message);
}

function setHealth(state, text, more = '') {
  byId('health').dataset.state = state;
  for (const [id, now] of [['health-text', text], ['health-more', more]]) {
    if (byId(id).textContent !== now) byId(id).textContent = now;
  }
}

let modelsKnown = false;

async function models() {
  try {
    const { data } = await getJSON('v1/models');
    const select = byId('model');
    const before = select.value;
    const windows = new Map(data.map((model) => [model.id, model.context_length]));
    const ids = [...windows.keys()];
    ids.sort((a, b) => (b === 'default') - (a === 'default')); // the rest as it is
    select.replaceChildren(...ids.map((id) => el('option', { value: id, 'data-window': windows.get(id) }, id)));
    select.value = ids.includes(before) ? before : (ids[0] ?? '');
    modelsKnown = ids.length > 0;
    optionsChanged();
  } catch (failure) {
    failed(failure);
  }
}

// changed shows the status after something was changed, with what has failed.
const changed = (failure) => refresh().then(() => problem('status-problem', failure?.message));

let refreshing = false;

async function refresh() {
  if (refreshing || refused || document.hidden) return;
  refreshing = true;
  try {
    const seen = document.body.dataset.view === 'status' && administers();
    const status = seen ? await administered() : await getJSON('codex/status');
    const servers = status.app_servers ?? [];
    const ready = servers.filter((server) => server.state === 'ready').length;
    const running = status.turns?.running ?? 0;
    const text = ready === 0 ? 'Not ready' : ready < servers.length ? `${ready} of ${servers.length} ready` : 'Ready';
    setHealth(ready === 0 ? 'bad' : ready < servers.length ? 'some' : 'good', text, running > 0 ? `· ${number(running)} running` : '');
    if (document.body.dataset.view === 'status') {
      const [usage, turns, trace] = await Promise.all([getJSON('v1/usage'), getJSON('v1/usage/raw'), getJSON('codex/trace')]);
      showSwitch(trace);
      byId('open-admin').hidden = !seen && !status.administration;
      showStatus(status, usage, turns, changed);
    }
    if (!modelsKnown && ready > 0) models(); // a failure counts as a request of the person
  } catch (failure) {
    failed(failure);
  } finally {
    refreshing = false;
  }
}

// Listeners

const ideas = [
  ['Say hello', () => ask('Hello! What can you do?')],
  ['Call a tool', () => {
    if (!byId('tools').value.trim()) lend('tools', JSON.stringify(example, null, 2));
    ask('What is the weather in Oslo? Use the tool.');
  }],
  ['Compare answers', () => {
    lend('choices', '2');
    ask('Name a good book, in one line.');
  }],
];

function ask(text) {
  byId('prompt').value = text;
  send();
}

function insert(id, value) {
  byId(id).value = JSON.stringify(value, null, 2);
  optionsChanged();
}

function optionsChanged() {
  showInUse();
  showCodeIfShown();
}

function showCodeIfShown() {
  if (document.body.dataset.pane === 'code') showCode();
}

function showHistoryIfShown() {
  if (document.body.dataset.pane === 'history') showHistory();
}

function listen() {
  byId('ideas').append(...ideas.map(([name, click]) => el('li', {}, el('button', { type: 'button', class: 'idea', click }, name))));
  byId('composer').addEventListener('submit', (event) => {
    event.preventDefault();
    send();
  });
  byId('prompt').addEventListener('keydown', (event) => onEnter(event, () => busy() || send()));
  document.querySelector('.skip').addEventListener('click', (event) => {
    event.preventDefault(); // the address stays that of the chat
    byId('prompt').focus();
  });
  byId('prompt').addEventListener('input', showCodeIfShown);
  byId('prompt').addEventListener('paste', (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length > 0) addImages(files);
  });
  byId('stop').addEventListener('click', stop);
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && !event.isComposing && event.target.id !== 'search' && !document.querySelector('dialog[open]')) stop();
  });
  byId('clear').addEventListener('click', clear);
  byId('attach').addEventListener('click', () => byId('files').click());
  byId('files').addEventListener('change', async (event) => {
    await addImages([...event.target.files]);
    event.target.value = '';
  });
  onImages(showCodeIfShown);
  onOpen(() => {
    if (narrow.matches) showPane('chat');
    focusPrompt();
  });
  byId('option-form').addEventListener('input', optionsChanged);
  byId('option-form').addEventListener('submit', (event) => event.preventDefault());
  byId('show-options').addEventListener('click', () => showPane('options'));
  byId('reset-options').addEventListener('click', () => {
    resetOptions();
    focusPrompt();
  });
  byId('tool-example').addEventListener('click', () => insert('tools', example));
  byId('schema-example').addEventListener('click', () => insert('schema', exampleSchema));
  byId('search').addEventListener('input', showHistory);
  byId('save-found').addEventListener('click', saveFound);
  byId('forget-all').addEventListener('click', askForgetAll);
  document.querySelector('.panes').addEventListener('keydown', movePane);
  for (const tab of document.querySelectorAll('.panes [data-pane]')) tab.addEventListener('click', () => showPane(tab.dataset.pane));
  narrow.addEventListener('change', () => showPane(pane));
  for (const button of document.querySelectorAll('[data-language], [data-api]')) {
    button.addEventListener('click', () => {
      Object.assign(chosen, button.dataset);
      showCode();
    });
  }
  byId('copy').addEventListener('click', copyCode);
  byId('scheme').addEventListener('click', () => tellScheme(window.nextScheme()));
  byId('open-key').addEventListener('click', () => askKey(false));
  byId('key-form').addEventListener('submit', (event) => {
    event.preventDefault();
    useKey(byId('key').value);
  });
  byId('key-cancel').addEventListener('click', () => byId('key-dialog').close());
  byId('key-forget').addEventListener('click', () => useKey(''));
  byId('record').addEventListener('click', () => switchOn().catch(changed));
  byId('open-admin').addEventListener('click', () => (administers() ? useAdminKey('') : askAdminKey()));
  byId('admin-form').addEventListener('submit', (event) => {
    event.preventDefault();
    useAdminKey(byId('admin-key').value);
  });
  byId('admin-cancel').addEventListener('click', () => byId('admin-dialog').close());
  window.addEventListener('hashchange', showView);
  window.addEventListener('pagehide', leave);
  window.addEventListener('storage', showHistoryIfShown); // another tab has changed it
  document.addEventListener('visibilitychange', refresh);
  onChat({
    unauthorized: () => askKey(true),
    wrong: () => showPane('options'),
    changed: () => {
      showAddress();
      showCodeIfShown();
      showHistoryIfShown();
      refresh();
    },
  });
}

const refreshEvery = 3000; // milliseconds

listen();
showKey();
tellScheme(window.showScheme(document.documentElement.dataset.scheme));
showPane('chat');
showInUse();
focusPrompt();
showView();
models();
setInterval(refresh, refreshEvery);
