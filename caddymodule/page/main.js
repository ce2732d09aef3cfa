// The page as a whole: its views and panes, the key, and what is asked of the server.

import { ApiError, call, getJSON, key, setKey } from './api.js';
import { busy, clear, onChat, send, shownRequest, stop } from './chat.js';
import { code } from './code.js';
import { byId, el, problem } from './dom.js';
import { number } from './format.js';
import { addImages, onImages } from './images.js';
import { showStatus } from './status.js';
import { example, readTools } from './tools.js';

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
  refresh();
}

// Panes

const panes = ['chat', 'options', 'events', 'code'];
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

let language = 'curl';
const longURL = /data:[a-z]+\/[a-z+]+;base64,[A-Za-z0-9+/=]{80,}/g;

function showCode() {
  for (const button of document.querySelectorAll('[data-language]')) button.setAttribute('aria-pressed', String(button.dataset.language === language));
  const request = shownRequest();
  const text = request ? code(language, request) : '';
  const shown = text.replace(longURL, (url) => `${url.slice(0, 40)}…`);
  byId('code-text').textContent = shown;
  byId('copy').disabled = !request;
  const notes = [
    !request && 'The tools are no JSON yet.',
    key() && 'The key is expected in the variable CODEX_API_KEY.',
    shown !== text && 'Images are shortened here; Copy has them whole.',
  ];
  byId('code-note').textContent = notes.filter(Boolean).join(' ');
}

async function copy() {
  const request = shownRequest();
  if (!request) return;
  try {
    await navigator.clipboard.writeText(code(language, request));
    byId('copy').textContent = 'Copied';
  } catch {
    byId('copy').textContent = 'Not allowed by the browser';
  }
  setTimeout(() => (byId('copy').textContent = 'Copy'), 2000);
}

// Key

function askKey(wrong) {
  const dialog = byId('key-dialog');
  problem('key-problem', wrong && key() ? 'The server does not know this key, or it has expired.' : '');
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

async function models() {
  try {
    const { data } = await getJSON('v1/models');
    const select = byId('model');
    const chosen = select.value;
    const ids = data.map((model) => model.id);
    ids.sort((a, b) => (b === 'default') - (a === 'default')); // the rest as it is
    select.replaceChildren(...ids.map((id) => el('option', { value: id }, id)));
    select.value = ids.includes(chosen) ? chosen : (ids[0] ?? '');
    showCodeIfShown();
  } catch (failure) {
    failed(failure);
  }
}

let refreshing = false;

async function refresh() {
  if (refreshing || refused || document.hidden) return;
  refreshing = true;
  try {
    const status = await (await call('codex/status')).json();
    const servers = status.app_servers ?? [];
    const ready = servers.filter((server) => server.state === 'ready').length;
    const running = status.turns?.running ?? 0;
    const text = ready === 0 ? 'Not ready' : ready < servers.length ? `${ready} of ${servers.length} ready` : 'Ready';
    setHealth(ready === 0 ? 'bad' : ready < servers.length ? 'some' : 'good', text, running > 0 ? `· ${number(running)} running` : '');
    if (document.body.dataset.view === 'status') {
      const [usage, turns] = await Promise.all([getJSON('v1/usage'), getJSON('v1/usage/raw')]);
      showStatus(status, usage, turns);
    }
    if (byId('model').options.length < 2) models();
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
    if (!byId('tools').value.trim()) insertExample();
    ask('What is the weather in Oslo? Use the tool.');
  }],
  ['Compare answers', () => {
    byId('choices').value = '2';
    ask('Name a good book, in one line.');
  }],
];

function ask(text) {
  byId('prompt').value = text;
  byId('prompt').focus();
  send();
}

function insertExample() {
  byId('tools').value = JSON.stringify(example, null, 2);
  readTools();
  showCodeIfShown();
}

function showCodeIfShown() {
  if (document.body.dataset.pane === 'code') showCode();
}

function listen() {
  byId('ideas').append(...ideas.map(([name, click]) => el('li', {}, el('button', { type: 'button', class: 'idea', click }, name))));
  byId('composer').addEventListener('submit', (event) => {
    event.preventDefault();
    send();
  });
  byId('prompt').addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!busy()) send();
  });
  byId('prompt').addEventListener('input', showCodeIfShown);
  byId('prompt').addEventListener('paste', (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length > 0) addImages(files);
  });
  byId('stop').addEventListener('click', stop);
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && !event.isComposing && !byId('key-dialog').open) stop();
  });
  byId('clear').addEventListener('click', clear);
  byId('attach').addEventListener('click', () => byId('files').click());
  byId('files').addEventListener('change', async (event) => {
    await addImages([...event.target.files]);
    event.target.value = '';
  });
  onImages(showCodeIfShown);
  byId('options').addEventListener('input', showCodeIfShown);
  byId('tools').addEventListener('input', readTools);
  byId('tool-example').addEventListener('click', insertExample);
  document.querySelector('.panes').addEventListener('keydown', movePane);
  for (const tab of document.querySelectorAll('.panes [data-pane]')) tab.addEventListener('click', () => showPane(tab.dataset.pane));
  narrow.addEventListener('change', () => showPane(pane));
  for (const button of document.querySelectorAll('[data-language]')) {
    button.addEventListener('click', () => {
      language = button.dataset.language;
      showCode();
    });
  }
  byId('copy').addEventListener('click', copy);
  byId('open-key').addEventListener('click', () => askKey(false));
  byId('key-form').addEventListener('submit', (event) => {
    event.preventDefault();
    useKey(byId('key').value);
  });
  byId('key-cancel').addEventListener('click', () => byId('key-dialog').close());
  byId('key-forget').addEventListener('click', () => useKey(''));
  window.addEventListener('hashchange', showView);
  document.addEventListener('visibilitychange', refresh);
  onChat({
    unauthorized: () => askKey(true),
    wrong: () => showPane('options'),
    changed: () => {
      showCodeIfShown();
      refresh();
    },
  });
}

const refreshEvery = 3000; // milliseconds

listen();
showKey();
showPane('chat');
showView();
models();
setInterval(refresh, refreshEvery);
