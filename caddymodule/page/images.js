// Images of the next message, as data URLs.

import { byId, el, problem } from './dom.js';

const types = ['image/png', 'image/jpeg', 'image/webp', 'image/gif'];
const maxBytes = 10 << 20;
const maxImages = 8;

let images = []; // { name, url }
let changed = () => {};

export function onImages(listener) {
  changed = listener;
}

export const currentImages = () => images;

export function clearImages() {
  images = [];
  show();
}

// setImages replaces the images by those of a message.
export function setImages(urls) {
  images = urls.map((url) => ({ name: 'image', url }));
  show();
}

// addImages reads files. What is no image, too large or too many is named.
export async function addImages(files) {
  problem('composer-problem', '');
  for (const file of files) {
    if (!types.includes(file.type)) problem('composer-problem', `${file.name} is not a PNG, JPEG, WebP or GIF.`);
    else if (file.size > maxBytes) problem('composer-problem', `${file.name} is larger than 10 MiB.`);
    else if (images.length >= maxImages) problem('composer-problem', `A message has at most ${maxImages} images here.`);
    else images = [...images, { name: file.name || 'image', url: await read(file) }];
  }
  show();
}

function read(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

function show() {
  byId('thumbs').replaceChildren(
    ...images.map((image) =>
      el(
        'li',
        {},
        el('img', { src: image.url, alt: image.name }),
        el('button', { type: 'button', 'aria-label': `Remove ${image.name}`, click: () => remove(image) }, '×'),
      ),
    ),
  );
  changed();
}

function remove(image) {
  images = images.filter((other) => other !== image);
  show();
  byId('attach').focus();
}
