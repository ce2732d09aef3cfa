// What the administrator does: signing a login in by a code. The admin key is kept in this
// page alone, until it is left, and sent to the routes for administration only.

import { call } from './api.js';
import { copyButton, el } from './dom.js';
import { until } from './format.js';

let secret = '';

export const administers = () => secret !== '';

export function setAdminKey(value) {
  secret = value.trim();
}

// administer sends a request with the admin key.
export const administer = async (path, method = 'GET') => (await call(`codex/admin/${path}`, { method, secret })).json();

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
      { class: 'sign-in' },
      el('p', {}, 'Open ', el('a', { href: httpsOnly(now.url), target: '_blank', rel: 'noopener noreferrer' }, now.url), ' and enter this code:'),
      el('p', {}, el('strong', { class: 'device-code' }, now.code), ' ', copyButton(() => now.code), ' ', el('span', { class: 'note' }, `${until(now.expires_at)} left`)),
      button('Cancel', 'DELETE'),
    );
  }
  if (now.state === 'starting') return el('div', { class: 'sign-in' }, el('p', { class: 'note' }, 'Asking for a code…'), button('Cancel', 'DELETE'));
  return el(
    'div',
    { class: 'sign-in' },
    now.state === 'failed' && el('p', { class: 'reason' }, `The last sign-in failed: ${now.reason}`),
    button('Sign in', 'POST'),
  );
}

// httpsOnly returns a URL of that scheme, and undefined for any other.
const httpsOnly = (url) => (String(url).startsWith('https://') ? url : undefined);
