// The conversation: sending, receiving, answering calls.

import { ApiError, call, events } from './api.js';
import { Answer } from './answer.js';
import { announce, byId, el, follow, passFocus, problem } from './dom.js';
import { addEvent, clearEvents } from './events.js';
import { keep } from './history.js';
import { clearImages, setImages } from './images.js';
import { buildRequest, userMessage } from './request.js';

const followLog = follow(byId('log'));

let id = crypto.randomUUID?.() ?? String(Math.random()); // of the conversation, among those that are kept
let messages = []; // of the conversation, as the API takes them
let running = null; // the AbortController of the request that runs
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
  if (draft) return buildRequest([...messages, draft]);
  return lastRequest ?? buildRequest([{ role: 'user', content: 'hello' }]);
}

export const busy = () => running !== null;

// send sends what is in the composer.
export function send() {
  const message = userMessage();
  if (running || !message) return;
  problem('composer-problem', answerCalls && 'Answer the calls first, or begin a new chat.');
  if (answerCalls) {
    byId('log').querySelector('.call textarea:not([readonly])')?.focus();
    return;
  }
  const request = buildRequest([...messages, message]);
  if (!request) return listeners.wrong?.();
  showUser(message, messages.length);
  byId('prompt').value = '';
  clearImages();
  messages.push(message);
  ask(request);
}

export function stop() {
  running?.abort();
}

export function clear() {
  begin([]);
  byId('prompt').focus();
}

// open shows a conversation that was kept, which goes on.
export function open(conversation) {
  begin(conversation.messages, conversation.id);
  let last = null;
  for (const [place, message] of messages.entries()) {
    if (message.role === 'user') showUser(message, place);
    if (message.role === 'assistant') {
      const answer = new Answer(false);
      show(answer.element);
      last = answer.restore(message);
      offerAgain(answer, place);
    }
    if (message.role === 'tool') last?.settle(message);
  }
  if (messages.at(-1)?.role === 'assistant') offerCalls(last);
  update();
}

// begin begins another conversation.
function begin(all, known) {
  running?.abort();
  running = null;
  id = known ?? crypto.randomUUID?.() ?? String(Math.random());
  messages = [...all];
  lastRequest = null;
  answerCalls = null;
  problem('composer-problem', '');
  byId('log').replaceChildren(byId('log').firstElementChild);
  byId('empty').hidden = messages.length > 0;
  clearEvents();
  update();
}

// cut takes the conversation back to before a place, whose message an element shows.
function cut(place, element) {
  messages.length = place;
  while (element.nextSibling) element.nextSibling.remove();
  element.remove();
  answerCalls = null;
  lastRequest = null;
  problem('composer-problem', '');
  byId('empty').hidden = place > 0;
}

// edit takes a message of the person back into the composer.
function edit(message, place, element) {
  if (running) return;
  cut(place, element);
  const parts = typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content;
  byId('prompt').value = parts.filter(({ type }) => type === 'text').map(({ text }) => text).join('\n');
  setImages(parts.filter(({ type }) => type === 'image_url').map((part) => part.image_url.url));
  update();
  byId('prompt').focus();
}

// offerAgain lets the person have an answer made again.
function offerAgain(answer, place) {
  const again = () => {
    const request = running ? null : buildRequest(messages.slice(0, place));
    if (!request) return;
    passFocus(answer.element);
    cut(place, answer.element);
    ask(request);
  };
  answer.acts.append(el('button', { type: 'button', class: 'link', click: again }, 'Regenerate'));
}

function showUser(message, place) {
  byId('empty').hidden = true;
  const change = el('button', { type: 'button', class: 'link', click: () => edit(message, place, element) }, 'Edit');
  const parts = typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content;
  const element = el(
    'div',
    { class: 'message user' },
    el('p', { class: 'who' }, 'You'),
    ...parts.map((part) => (part.type === 'text' ? el('div', { class: 'text' }, part.text) : el('img', { src: part.image_url.url, alt: 'Image of the message' }))),
    el('p', { class: 'acts' }, change),
  );
  show(element);
}

function show(element) {
  byId('log').append(element);
  followLog(true);
}

// ask sends a request and shows its answer.
async function ask(request) {
  const here = (running = new AbortController());
  const answer = new Answer(request.body.n > 1);
  const place = messages.length;
  lastRequest = request;
  clearEvents();
  show(answer.element);
  announce('');
  update();
  let note = '';
  try {
    await receive(request, answer, here.signal);
  } catch (failure) {
    note = here.signal.aborted ? 'stopped' : 'failed';
    if (!here.signal.aborted) showFailure(answer, request, failure);
  }
  if (running !== here) return; // another conversation has begun
  running = null;
  answer.end(note);
  if (note !== 'failed') offerAgain(answer, place);
  conclude(answer, note);
  save();
  followLog();
  update();
}

// save lets the browser keep the conversation.
function save() {
  const [part] = [messages[0]?.content].flat();
  if (part) keep({ id, title: (part.text ?? (typeof part === 'string' ? part : 'Image')).slice(0, 80), at: Date.now(), messages });
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
  if (note === 'stopped') {
    announce('Stopped.');
    if (answer.choices[0].text) messages.push({ role: 'assistant', content: answer.choices[0].text });
    return;
  }
  announce('The answer is complete.');
  const place = messages.push(answer.choices[0].message()) - 1;
  if (answer.several) offerChoices(answer, place);
  offerCalls(answer.choices[0]);
}

// offerChoices lets the person choose with which choice the conversation goes on.
function offerChoices(answer, place) {
  const buttons = answer.choices.map((choice, i) =>
    el('button', { type: 'button', class: 'quiet', 'aria-pressed': i === 0 ? 'true' : 'false', click: () => choose(i) }, 'Continue with this'),
  );
  const choose = (chosen) => {
    if (running || messages.length !== place + 1) return; // the conversation has gone on
    messages[place] = answer.choices[chosen].message();
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
  for (const card of choice.cards) if (!card.result) card.ask();
  const submit = el('button', { type: 'button', class: 'main send-results', click: () => answerCalls?.() }, choice.calls.length > 1 ? 'Send results' : 'Send result');
  choice.callBox.append(submit);
  announce(choice.calls.length > 1 ? `The model makes ${choice.calls.length} calls.` : `The model calls ${choice.calls[0].function.name}.`);
  choice.cards[0].result.focus({ preventScroll: true });
  answerCalls = () => {
    const results = choice.calls.map((made, i) => ({ role: 'tool', tool_call_id: made.id, content: choice.cards[i].result.value }));
    const request = buildRequest([...messages, ...results]);
    if (!request || running) return;
    answerCalls = null;
    for (const card of choice.cards) card.settle();
    problem('composer-problem', '');
    passFocus(submit);
    submit.remove();
    messages.push(...results);
    ask(request);
  };
}

// showFailure shows why a request failed, and offers to send it again.
function showFailure(answer, request, failure) {
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
    const fresh = buildRequest(messages);
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
  byId('composer-hint').textContent = running ? 'Esc stops' : 'Enter sends, Shift+Enter breaks the line';
  byId('clear').disabled = messages.length === 0 && !running;
  listeners.changed();
}
