// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// Measures a catalog in Chromium, opened from files: `node catalogue.js CHROMIUM DIRECTORY TEXT…`. Each text is searched for in
// five new browsers and then again. Prints one result in each line: `ready MS`, `first MS TEXT`, `again MS TEXT`, `pages N`, and
// `finding TEXT` for each one of axe-core, each message of a page, and each request for anything outside the site.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const { chromium } = require('playwright-core');
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const [program, directory, ...texts] = process.argv.slice(2);
const file = (name) => 'file://' + path.join(directory, name);
const start = () => chromium.launch({ executablePath: program, args: ['--no-sandbox'] });
// How many pages of each kind are checked.
const SAMPLE = 5;
// How often each text is searched for, each time in a new browser.
const ROUNDS = 5;

async function open(browser, options) {
  const page = await (await browser.newContext(options)).newPage();
  const say = (text) => console.log('finding', text.replaceAll('\n', ' '));
  page.on('console', (message) => say(message.text()));
  page.on('pageerror', (error) => say(error.message));
  page.on('request', (request) => {
    if (!request.url().startsWith(file('')) && request.url() !== 'data:,') say('asks for ' + request.url());
  });
  return page;
}

// Opens the first page; returns how long it takes until a text can be typed.
async function first(browser) {
  const page = await open(browser, {});
  await page.goto(file('index.html'), { waitUntil: 'commit' });
  const ready = await page.waitForFunction(() => document.documentElement.dataset.ready && performance.now());
  return [page, await ready.jsonValue()];
}

// From typing a text until its results are drawn.
function search(page, text) {
  return page.evaluate((text) => new Promise((resolve) => {
    const [box, status] = ['q', 'status'].map((id) => document.getElementById(id));
    status.textContent = '';
    const drawn = () => requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - begin)));
    new MutationObserver((_, observer) => {
      if (!/ images? of /.test(status.textContent)) return;
      observer.disconnect();
      drawn();
    }).observe(status, { childList: true });
    const begin = performance.now();
    box.value = text;
    box.dispatchEvent(new Event('input', { bubbles: true }));
  }), text);
}

async function times() {
  for (const text of texts) {
    for (let round = 0; round < ROUNDS; round++) {
      const browser = await start();
      const [page, ready] = await first(browser);
      console.log('ready', ready.toFixed(1));
      for (const name of ['first', 'again']) {
        console.log(name, (await search(page, text)).toFixed(1), text);
        await search(page, 'nothing-has-this-name');
      }
      await browser.close();
    }
  }
}

async function check(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run({ preload: false, resultTypes: ['violations'] }));
  for (const one of found.violations) console.log('finding', page.url(), one.id, one.nodes.length);
}

// Some pages of each kind: the first and the last ones of each directory.
function pages() {
  const below = (place) => {
    const entries = fs.readdirSync(path.join(directory, place), { withFileTypes: true });
    const names = entries.filter((one) => one.isFile() && one.name.endsWith('.html')).map((one) => path.join(place, one.name));
    const some = names.length > 2 * SAMPLE ? [...names.slice(0, SAMPLE), ...names.slice(-SAMPLE)] : names;
    return [...some, ...entries.filter((one) => one.isDirectory()).flatMap((one) => below(path.join(place, one.name)))];
  };
  return below('');
}

async function checks() {
  const browser = await start();
  const names = pages();
  for (const name of names) {
    for (const colorScheme of ['light', 'dark']) {
      const page = await open(browser, { colorScheme, viewport: { width: 400, height: 800 } });
      await page.goto(file(name));
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      if (width > 400) console.log('finding', name, 'is', width, 'pixels wide on a phone');
      await check(page);
      await page.context().close();
    }
  }
  const [page] = await first(browser);
  await search(page, texts[0]);
  await check(page);
  console.log('pages', names.length);
  await browser.close();
}

times().then(checks).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
