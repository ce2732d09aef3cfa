// Conversations that the browser keeps, for this site.

const storageKey = 'caddy-codex-conversations';
const maxConversations = 100;
const maxLength = 2 << 20; // characters of all together

// kept returns the conversations, the newest first: { id, title, name, at, messages, versions, options },
// the time in milliseconds. A name is what the person has given it; older ones have no versions and options.
export function kept() {
  try {
    const all = JSON.parse(localStorage.getItem(storageKey) ?? '[]');
    return Array.isArray(all) ? all.filter((c) => c && Array.isArray(c.messages)) : [];
  } catch {
    return []; // no storage, or something else in it
  }
}

export const nameOf = ({ name, title }) => name || title;

// keep adds a conversation, or replaces that with its id, whose name stays. The oldest go if there is
// no room. If it has no room itself, all stays as it is. It reports whether it is kept.
export function keep(conversation) {
  const before = kept();
  const { name } = before.find(({ id }) => id === conversation.id) ?? {};
  const fresh = { ...conversation, name };
  if (JSON.stringify([fresh]).length > maxLength) return false;
  return store([fresh, ...before.filter(({ id }) => id !== conversation.id)].slice(0, maxConversations)) > 0;
}

export function rename(id, name) {
  store(kept().map((conversation) => (conversation.id === id ? { ...conversation, name } : conversation)));
}

// search returns the conversations that have all words of a text in their name or messages.
export function search(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return kept().filter((conversation) => {
    const all = [nameOf(conversation), ...conversation.messages.map(textOf)].join('\n').toLowerCase();
    return words.every((word) => all.includes(word));
  });
}

const speakers = { user: 'You', assistant: 'Model', tool: 'Result' };

// asMarkdown returns a conversation as a text for people.
export const asMarkdown = (conversation) =>
  [`# ${nameOf(conversation)}`, ...conversation.messages.map((message) => `**${speakers[message.role]}**\n\n${textOf(message)}`)].join('\n\n');

// textOf returns what people read of a message.
function textOf({ content, tool_calls: calls = [] }) {
  const parts = Array.isArray(content) ? content.map((part) => part.text ?? '') : [content ?? ''];
  return [...parts, ...calls.map((call) => `${call.function?.name} ${call.function?.arguments}`)].join('\n');
}

export function forget(id) {
  store(kept().filter((conversation) => conversation.id !== id));
}

export function forgetAll() {
  store([]);
}

// store keeps the first of the conversations that have room together, and returns how many. If the browser
// has no room for one, what it keeps stays.
function store(all) {
  for (; ; all.pop()) {
    const text = JSON.stringify(all);
    if (text.length > maxLength) continue;
    try {
      localStorage.setItem(storageKey, text);
      return all.length;
    } catch {
      if (all.length <= 1) return 0;
    }
  }
}
