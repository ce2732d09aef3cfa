// What the administrator does: signing a login in by a code, and resetting a plan's windows for a
// credit. The admin key is kept in this page alone, until it is left, and sent to the routes for
// administration only.

import { call } from './api.js';
import { copyButton, el } from './dom.js';
import { clock, counted, until } from './format.js';

let secret = '';

export const administers = () => secret !== '';

export function setAdminKey(value) {
  secret = value.trim();
}

// administer sends a request with the admin key.
export const administer = async (path, method = 'GET', headers = {}) => (await call(`codex/admin/${path}`, { method, headers, secret })).json();

// signIn shows how far the sign-in of an app-server is, with what can be done. changed is called
// after each action, with what has failed.
export function signIn(server, changed) {
  const now = server.login?.sign_in ?? {};
  const button = (text, method) =>
    el(
      'button',
      {
        type: 'button',
        class: 'quiet',
        click: async (event) => {
          event.target.disabled = true; // until it is shown again
          try {
            await administer(`login?app_server=${encodeURIComponent(server.id)}`, method);
            changed();
          } catch (failure) {
            changed(failure);
          }
        },
      },
      text,
    );
  if (now.state === 'waiting') {
    return el(
      'div',
      { class: 'task sign-in' },
      el('p', {}, 'Open ', el('a', { href: httpsOnly(now.url), target: '_blank', rel: 'noopener noreferrer' }, now.url), ' and enter this code:'),
      el('p', {}, el('strong', { class: 'device-code' }, now.code), ' ', copyButton(() => now.code), ' ', el('span', { class: 'note' }, `${until(now.expires_at)} left`)),
      button('Cancel', 'DELETE'),
    );
  }
  if (now.state === 'starting') return el('div', { class: 'task sign-in' }, el('p', { class: 'note' }, 'Asking for a code…'), button('Cancel', 'DELETE'));
  return el(
    'div',
    { class: 'task sign-in' },
    now.state === 'failed' && el('p', { class: 'reason' }, `The last sign-in failed: ${now.reason}`),
    button('Sign in', 'POST'),
  );
}

// The attempts to reset the windows of plans, by the ids of app-servers: the name of the attempt,
// whether it waits for a confirmation, and what was said of the last one. The name stays the same
// until its outcome is known, so that a repetition spends no second credit.
const attempts = new Map();

const newName = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');

// resetCredit offers to reset the windows of an app-server's plan for a credit, if there is one.
// changed is called after it, with what has failed.
export function resetCredit(server, changed) {
  const { available = 0, expires_at: expires } = server.login?.reset_credits ?? {};
  const attempt = attempts.get(server.id) ?? {};
  if (available < 1 && !attempt.said && !attempt.asks) return undefined;
  const box = el('div', { class: 'task reset-credit' });
  const become = (next) => {
    attempts.set(server.id, next);
    box.replaceWith(resetCredit(server, changed) ?? '');
  };
  const button = (text, click) => el('button', { type: 'button', class: 'quiet', click }, text);
  const spend = async () => {
    become({ name: attempt.name, busy: true, said: 'The credit is being spent…' });
    try {
      const reset = await administer(`credit?app_server=${encodeURIComponent(server.id)}`, 'POST', { 'Idempotency-Key': attempt.name });
      attempts.set(server.id, { said: reset.message });
      changed();
    } catch (failure) {
      attempts.set(server.id, { name: attempt.name });
      changed(failure);
    }
  };
  if (attempt.asks) {
    box.append(
      el('p', {}, `Spend one of ${counted(available, 'reset credit')}? It resets the windows of this plan now.`),
      el('p', {}, button('Spend it', spend), ' ', button('Keep it', () => become({ name: attempt.name }))),
    );
    return box;
  }
  box.append(
    el('p', { class: 'note', role: 'status' }, attempt.said ?? `${counted(available, 'reset credit')}${expires ? `, the first until ${clock(expires)}` : ''}`),
    available > 0 && !attempt.busy ? button('Reset the windows', () => become({ name: attempt.name ?? newName(), asks: true })) : '',
  );
  return box;
}

// httpsOnly returns a URL of that scheme, and undefined for any other.
const httpsOnly = (url) => (String(url).startsWith('https://') ? url : undefined);
