// Conversations that the browser keeps, for this site.

const storageKey = 'caddy-codex-conversations';
const maxConversations = 30;
const maxLength = 2 << 20; // characters of all together

// kept returns the conversations, the newest first: { id, title, at, messages }, the time in
// milliseconds.
export function kept() {
  try {
    const all = JSON.parse(localStorage.getItem(storageKey) ?? '[]');
    return Array.isArray(all) ? all.filter((c) => c && Array.isArray(c.messages)) : [];
  } catch {
    return []; // no storage, or something else in it
  }
}

// keep adds a conversation, or replaces that with its id. The oldest go if there is no room.
export function keep(conversation) {
  const all = [conversation, ...kept().filter(({ id }) => id !== conversation.id)].slice(0, maxConversations);
  store(all);
}

export function forget(id) {
  store(kept().filter((conversation) => conversation.id !== id));
}

export function forgetAll() {
  store([]);
}

function store(all) {
  for (; ; all.pop()) {
    const text = JSON.stringify(all);
    if (text.length > maxLength) continue;
    try {
      localStorage.setItem(storageKey, text);
      return;
    } catch {
      if (all.length === 0) return; // no storage
    }
  }
}
