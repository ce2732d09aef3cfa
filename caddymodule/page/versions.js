// The versions of an answer that was made again, or of a message that was edited, each with what followed it.

// maxVersions bounds the versions at one place. The oldest go.
const maxVersions = 10;

// A conversation is { messages, versions }. Its versions are those of what begins at a place:
// { at, all }, all being conversations from there on, and the one at `at` null: it is in messages.

// cut takes the messages from a place on, and their versions, out of a conversation, and returns them.
function cut({ messages, versions }, place) {
  const rest = { messages: messages.splice(place), versions: {} };
  for (const later of Object.keys(versions).filter((other) => Number(other) > place)) {
    rest.versions[later] = versions[later];
    delete versions[later];
  }
  return rest;
}

// begin sets what begins at a place aside, for a new version of it.
export function begin(conversation, place) {
  setAside(conversation, place, versionsAt(conversation, place));
  add(conversation, place, [null]);
  const version = conversation.versions[place];
  version.at = version.all.length - 1;
}

// add adds versions of what begins at a place, after that which is shown.
export function add(conversation, place, more) {
  const version = versionsAt(conversation, place);
  version.all.push(...more);
  version.at -= version.all.splice(0, version.all.length - maxVersions).length;
}

const versionsAt = ({ versions }, place) => (versions[place] ??= { at: 0, all: [null] });

// choose replaces what begins at a place by another version of it: the next one, or with -1 the previous.
export function choose(conversation, place, step) {
  const version = conversation.versions[place];
  const chosen = version.all[version.at + step];
  setAside(conversation, place, version);
  version.at = version.all.indexOf(chosen);
  version.all[version.at] = null;
  conversation.messages.push(...chosen.messages);
  Object.assign(conversation.versions, chosen.versions);
}

// setAside makes what is shown one of those that are not. One without an answer goes.
function setAside(conversation, place, version) {
  const shown = cut(conversation, place);
  if (shown.messages.length > 0) version.all[version.at] = shown;
  else version.all.splice(version.at, 1);
}
