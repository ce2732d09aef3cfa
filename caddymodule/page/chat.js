// The conversation: sending, receiving, answering calls.

import { ApiError, call, events } from './api.js';
import { Answer } from './answer.js';
import { announce, byId, el, focusPrompt, follow, handy, passFocus, problem } from './dom.js';
import { addEvent, clearEvents } from './events.js';
import { keep, kept } from './history.js';
import { clearImages, setImages } from './images.js';
import { lendAll, options, takeBack } from './options.js';
import { buildRequest, userMessage } from './request.js';
import * as versions from './versions.js';

const followLog = follow(byId('log'));

const newId = () => crypto.randomUUID?.() ?? String(Math.random());

let chat = { id: newId(), messages: [], versions: {} }; // its messages as the API takes them
let begun = false; // whether the browser was to keep the chat
let running = null; // the request that runs: { controller, answer }
let editing = null; // the message that is in the composer again: { place, element, button }
let answerCalls = null; // sends the results of the calls that wait for them; null: none wait
let listeners = { unauthorized() {}, changed() {} };
let lastRequest = null;

export function onChat(all) {
  listeners = all;
}

// shownRequest returns the request that is on screen: the one that Send would send, or
// else the last one.
export function shownRequest() {
  const draft = userMessage();
  if (draft) return buildRequest([...chat.messages.slice(0, editing?.place), draft]);
  const asked = chat.messages.findLastIndex(({ role }) => role !== 'assistant') + 1;
  return lastRequest ?? buildRequest(asked > 0 ? chat.messages.slice(0, asked) : [{ role: 'user', content: 'hello' }]);
}

export const busy = () => running !== null;

// chatId returns the id of the chat, or '' if the browser does not keep it.
export const chatId = () => (begun ? chat.id : '');

// send sends what is in the composer.
export function send() {
  const message = userMessage();
  if (running || !message) return;
  const blocked = answerCalls && !editing;
  problem('composer-problem', blocked && 'Answer the calls first, or begin a new chat.');
  if (blocked) {
    byId('log').querySelector('.call textarea:not([readonly])')?.focus();
    return;
  }
  const request = buildRequest([...chat.messages.slice(0, editing?.place), message]);
  if (!request) return listeners.wrong?.();
  if (editing) {
    versions.begin(chat, editing.place);
    undraw(editing.element);
  }
  showUser(message, chat.messages.length);
  byId('prompt').value = '';
  clearImages();
  chat.messages.push(message);
  focusPrompt();
  ask(request);
}

// stop ends the answer or the edit.
export function stop() {
  if (running) return running.controller.abort();
  endEdit();
  update();
}

// leave ends the answer. What has arrived of it stays in the chat.
export function leave() {
  if (!running) return;
  const { controller, answer } = running;
  running = null;
  controller.abort();
  answer.end('stopped');
  conclude(answer, 'stopped');
  save();
}

// clear begins an empty chat.
export function clear() {
  begin({ id: newId(), messages: [] });
  begun = false;
  update();
  focusPrompt();
}

// open shows a chat that was kept, which goes on.
export function open(kept) {
  begin(kept);
  focusPrompt();
  draw(0);
  update();
}

// disown makes the chat one that the browser does not keep, until it goes on.
export function disown() {
  chat.id = newId();
  begun = false;
  update();
}

// begin replaces the chat by another.
function begin(next) {
  leave();
  endEdit();
  takeBack();
  lendAll(next.options);
  chat = structuredClone({ id: next.id, at: next.at, messages: next.messages, versions: next.versions ?? {} });
  begun = true;
  answerCalls = null;
  byId('log').replaceChildren(byId('log').firstElementChild);
  clearEvents();
  settle();
}

// draw shows the messages from a place on.
function draw(from) {
  let last = null;
  for (const [place, message] of chat.messages.entries()) {
    if (place < from) continue;
    if (message.role === 'user') showUser(message, place);
    if (message.role === 'assistant') {
      const answer = new Answer(false);
      show(answer.element);
      last = answer.restore(message);
      offerAgain(answer, place);
    }
    if (message.role === 'tool') last?.settle(message);
  }
  const { role } = chat.messages.at(-1) ?? {};
  if (role === 'assistant') offerCalls(last);
  if (role === 'user' || role === 'tool') showUnanswered();
  settle();
}

// showUnanswered offers to ask for the answer that the last message did not get.
function showUnanswered() {
  const answer = new Answer(false);
  show(answer.element);
  showFailure(answer, new ApiError(0, { message: 'There is no answer to this: it was stopped, or it failed.' }));
  answer.wait.hidden = true;
  offerVersions(answer.acts, chat.messages.length, answer.element);
}

// undraw removes an element and all after it.
function undraw(element) {
  endEdit();
  while (element.nextSibling) element.nextSibling.remove();
  element.remove();
  answerCalls = null;
  settle();
}

// settle forgets what was asked and what was wrong, since the messages are others now.
function settle() {
  lastRequest = null;
  problem('composer-problem', '');
  byId('empty').hidden = chat.messages.length > 0;
}

// edit takes a message of the person back into the composer, or leaves it as it was if it is there. What
// follows the message becomes another version when the new one is sent.
function edit(message, place, element, button) {
  if (running) return;
  const again = editing?.element === element;
  endEdit();
  if (again) return update();
  editing = { place, element, button };
  element.classList.add('edited');
  button.textContent = 'Leave as it was';
  const parts = partsOf(message);
  byId('prompt').value = parts.filter(({ type }) => type === 'text').map(({ text }) => text).join('\n');
  setImages(parts.filter(({ type }) => type === 'image_url').map((part) => part.image_url.url));
  update();
  byId('prompt').focus();
}

function endEdit() {
  if (!editing) return;
  editing.element.classList.remove('edited');
  editing.button.textContent = 'Edit';
  editing = null;
  byId('prompt').value = '';
  clearImages();
}

// offerAgain lets the person have an answer made again, and choose between its versions.
function offerAgain(answer, place) {
  const again = () => {
    const request = running ? null : buildRequest(chat.messages.slice(0, place));
    if (!request) return;
    passFocus(answer.element);
    versions.begin(chat, place);
    undraw(answer.element);
    ask(request);
  };
  answer.acts.append(el('button', { type: 'button', class: 'link', click: again }, 'Regenerate'));
  offerVersions(answer.acts, place, answer.element);
}

// offerVersions lets the person choose between the versions of what begins with an element.
function offerVersions(acts, place, element) {
  const { at, all } = chat.versions[place] ?? { all: [] };
  if (all.length < 2) return;
  const button = (step, sign, label) =>
    el('button', { type: 'button', class: 'link', 'aria-label': label, disabled: !(at + step in all), click: () => choose(step) }, sign);
  const choose = (step) => {
    if (running) return;
    versions.choose(chat, place, step);
    undraw(element);
    draw(place);
    save();
    update();
    const shown = chat.versions[place];
    announce(`Version ${shown.at + 1} of ${shown.all.length}.`);
    if (!answerCalls) focusPrompt();
  };
  acts.append(el('span', { class: 'versions' }, button(-1, '‹', 'Previous version'), el('span', {}, `${at + 1}/${all.length}`), button(1, '›', 'Next version')));
}

const partsOf = ({ content }) => (typeof content === 'string' ? [{ type: 'text', text: content }] : content);

function showUser(message, place) {
  byId('empty').hidden = true;
  const change = el('button', { type: 'button', class: 'link', click: () => edit(message, place, element, change) }, 'Edit');
  const acts = el('p', { class: 'acts' }, change);
  const element = el(
    'article',
    { class: 'message user', 'aria-label': 'You' },
    el('h3', { class: 'who' }, 'You'),
    ...partsOf(message).map((part) => (part.type === 'text' ? el('div', { class: 'text' }, part.text) : el('img', { src: part.image_url.url, alt: 'Image of the message' }))),
    acts,
  );
  offerVersions(acts, place, element);
  show(element);
}

function show(element) {
  byId('log').append(element);
  followLog(true);
}

// ask sends a request and shows its answer.
async function ask(request) {
  const answer = new Answer(request.body.n > 1);
  const controller = new AbortController();
  const here = (running = { controller, answer });
  const place = chat.messages.length;
  lastRequest = request;
  save();
  clearEvents();
  show(answer.element);
  announce('');
  update();
  let note = '';
  try {
    await receive(request, answer, controller.signal);
  } catch (failure) {
    if (running !== here) return; // another chat has begun
    note = controller.signal.aborted ? 'stopped' : 'failed';
    if (note === 'failed') showFailure(answer, failure);
  }
  if (running !== here) return;
  running = null;
  answer.end(note);
  if (note === 'failed') offerVersions(answer.acts, place, answer.element);
  else offerAgain(answer, place);
  conclude(answer, note);
  save();
  followLog();
  update();
}

// save lets the browser keep the chat. Where another tab has changed it, it becomes another chat.
function save() {
  if (chat.messages.length === 0) return;
  const title = (partsOf(chat.messages[0])[0].text ?? 'Image').slice(0, 80);
  begun = true;
  const other = kept().find(({ id }) => id === chat.id);
  if (other && other.at !== chat.at) {
    chat.id = newId();
    problem('composer-problem', 'Another tab has changed this chat, so it goes on here as a chat of its own.');
  }
  const at = Date.now();
  if (keep({ ...chat, title, at, options: options() })) chat.at = at;
  else problem('composer-problem', 'The browser has no room to keep this chat: what is new in it is gone when you leave it.');
}

// receive feeds the answer with what arrives.
async function receive({ body, headers }, answer, signal) {
  const response = await call('v1/chat/completions', { body, headers, signal });
  let done = false;
  const add = (text) => {
    addEvent(text);
    if (text === '[DONE]') {
      done = true;
      return;
    }
    const chunk = JSON.parse(text);
    if (chunk.error) throw new ApiError(response.status, chunk.error, response.headers.get('x-request-id'));
    answer.add(chunk);
    followLog();
  };
  if (!body.stream) return add(await response.text());
  for await (const text of events(response)) add(text);
  if (!done) throw new ApiError(0, { message: 'The connection ended before the answer did.' });
}

// conclude makes the answer a part of the conversation.
function conclude(answer, note) {
  if (note === 'failed' || answer.empty) return;
  const meta = answer.meta.textContent;
  if (note === 'stopped') {
    announce('Stopped.');
    if (answer.choices[0].text) chat.messages.push({ role: 'assistant', content: answer.choices[0].text, meta });
    return;
  }
  announce('The answer is complete.');
  const [first, ...others] = answer.choices.map((choice) => ({ ...choice.message(), meta }));
  const place = chat.messages.push(first) - 1;
  if (others.length > 0) versions.add(chat, place, others.map((message) => ({ messages: [message], versions: {} })));
  if (answer.several) offerChoices(answer, place);
  offerCalls(answer.choices[0]);
}

// offerChoices lets the person choose with which choice the conversation goes on.
function offerChoices(answer, place) {
  const buttons = answer.choices.map((choice, i) =>
    el('button', { type: 'button', class: 'quiet', 'aria-pressed': i === 0 ? 'true' : 'false', click: () => choose(i) }, 'Continue with this'),
  );
  let shown = 0;
  const choose = (chosen) => {
    if (running || chat.messages.length !== place + 1) return; // the conversation has gone on
    versions.choose(chat, place, chosen - shown);
    shown = chosen;
    save();
    for (const [i, button] of buttons.entries()) button.setAttribute('aria-pressed', i === chosen ? 'true' : 'false');
    byId('log').querySelector('.send-results')?.remove();
    answerCalls = null;
    offerCalls(answer.choices[chosen]);
    update();
  };
  for (const [i, choice] of answer.choices.entries()) choice.element.append(buttons[i]);
}

// offerCalls asks for the results of the calls of a choice, and sends them.
function offerCalls(choice) {
  if (choice.calls.length === 0) return;
  for (const card of choice.cards) if (!card.result) card.ask(() => enter());
  const submit = el('button', { type: 'button', class: 'main send-results', click: () => answerCalls?.() }, choice.calls.length > 1 ? 'Send results' : 'Send result');
  choice.callBox.append(submit);
  announce(choice.calls.length > 1 ? `The model makes ${choice.calls.length} calls.` : `The model calls ${choice.calls[0].function.name}.`);
  if (handy() && !byId('prompt').value.trim()) choice.cards[0].result.focus({ preventScroll: true });
  // Enter goes to a result that is missing, or sends them.
  const enter = () => {
    const missing = choice.cards.find(({ result }) => !result.value.trim());
    if (missing) missing.result.focus();
    else answerCalls?.();
  };
  answerCalls = () => {
    const results = choice.calls.map((made, i) => ({ role: 'tool', tool_call_id: made.id, content: choice.cards[i].result.value }));
    const request = buildRequest([...chat.messages, ...results]);
    if (!request || running) return;
    answerCalls = null;
    for (const card of choice.cards) card.settle();
    problem('composer-problem', '');
    focusPrompt();
    submit.remove();
    chat.messages.push(...results);
    ask(request);
  };
}

// showFailure shows why a request failed, and offers to send it again.
function showFailure(answer, failure) {
  const error = failure instanceof ApiError ? failure : new ApiError(0, { message: `The answer cannot be read: ${failure.message}` });
  const facts = [error.status > 0 && `status ${error.status}`, error.code, error.requestId && `request ${error.requestId}`].filter(Boolean).join(' · ');
  const box = el(
    'div',
    { class: 'failure', role: 'alert' },
    el('p', {}, error.message),
    facts && el('p', { class: 'meta' }, facts),
    el('button', { type: 'button', class: 'quiet', click: () => again() }, 'Try again'),
  );
  const again = () => {
    if (running) return;
    const fresh = buildRequest(chat.messages);
    if (!fresh) return;
    passFocus(answer.element);
    answer.element.remove();
    ask(fresh);
  };
  answer.element.insertBefore(box, answer.meta);
  if (error.status > 0) addEvent(error.message, 'event error');
  if (error.status === 401) listeners.unauthorized();
}

function update() {
  passFocus(byId(running ? 'send' : 'stop'));
  byId('send').hidden = running !== null;
  byId('stop').hidden = running === null;
  byId('composer-hint').textContent = running ? 'Esc stops' : editing ? 'Esc leaves the message as it was' : 'Enter sends, Shift+Enter breaks the line';
  byId('clear').disabled = chat.messages.length === 0 && !running;
  listeners.changed();
}
