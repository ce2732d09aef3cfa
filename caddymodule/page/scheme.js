// The colours that the person has chosen: before the page is shown, so no module.

const schemes = { auto: ['◐', 'as the device'], light: ['○', 'light'], dark: ['●', 'dark'] };
const schemeKey = 'caddy-codex-colours';

function showScheme(name) {
  const known = Object.hasOwn(schemes, name) ? name : 'auto';
  document.documentElement.dataset.scheme = known;
  return schemes[known];
}

// nextScheme shows the next one, and keeps it.
function nextScheme() {
  const names = Object.keys(schemes);
  const name = names[(names.indexOf(document.documentElement.dataset.scheme) + 1) % names.length];
  try {
    localStorage.setItem(schemeKey, name);
  } catch {
    // no storage: until the page is left
  }
  return showScheme(name);
}

try {
  showScheme(localStorage.getItem(schemeKey));
} catch {
  showScheme('auto');
}
