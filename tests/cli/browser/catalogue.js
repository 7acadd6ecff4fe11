// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// A catalogue in Chromium: `node catalogue.js CHROMIUM DIRECTORY ADDRESS`. The directory and the address have the same
// site. It has a package `hdf5` in the image `app`, and an image `hostile` whose texts are scripts.
'use strict';
const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { chromium } = require('playwright-core');
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const [program, directory, address] = process.argv.slice(2);
const file = (name) => 'file://' + path.join(directory, name);
const said = [];

// A page whose every message is kept. Nothing outside of the site may be asked for.
async function open(browser, options) {
  const page = await (await browser.newContext(options)).newPage();
  page.on('console', (message) => said.push(message.text()));
  page.on('pageerror', (error) => said.push(error.message));
  page.on('dialog', (dialog) => { said.push('dialog: ' + dialog.message()); dialog.dismiss(); });
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(file('')) && !url.startsWith(address) && url !== 'data:,') said.push('asks for ' + url);
  });
  return page;
}

async function ready(page, url) {
  await page.goto(url);
  await page.waitForFunction(() => document.documentElement.dataset.ready);
}

// Waits for the results of what was typed.
async function results(page, count) {
  const is = (count) => document.getElementById('status').textContent.startsWith(count + ' image');
  await page.waitForFunction(is, count).catch(async (error) => {
    const status = await page.textContent('#status');
    throw new Error('not ' + count + ', but ' + status + ' for ' + await page.inputValue('#q'), { cause: error });
  });
  return page.$$eval('#images th a', (links) => links.map((link) => link.textContent));
}

function pages(below) {
  const names = fs.readdirSync(path.join(directory, below), { withFileTypes: true });
  return names.flatMap((entry) => {
    const name = path.join(below, entry.name);
    return entry.isDirectory() ? pages(name) : name.endsWith('.html') ? [name] : [];
  });
}

async function check(page, name) {
  // The policy of the page forbids this script in it, and so it is evaluated.
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run({ preload: false }));
  const shown = found.violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.html).join(' '));
  assert.deepStrictEqual(shown, [], name);
  assert.ok(found.passes.length > 10, name);
}

async function everyPage(browser) {
  for (const name of pages('')) {
    for (const scheme of ['light', 'dark']) {
      const page = await open(browser, { colorScheme: scheme, viewport: { width: 400, height: 800 } });
      await page.goto(file(name));
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= 400, name + ' is ' + width + ' wide');
      await check(page, name + ', ' + scheme);
      await page.context().close();
    }
  }
}

async function search(browser, url) {
  const page = await open(browser, {});
  await ready(page, url);
  const box = page.locator('#q');
  await box.fill('app');
  const all = await results(page, 2);
  assert.deepStrictEqual(all.sort(), ['deploy::app/1.0:v1', 'deploy::app/2.0:v1']);
  for (const [text, found] of [
    ['hdf5', ['deploy::app/1.0:v1']],
    ['HDF5', ['deploy::app/1.0:v1']],
    ['zlib', ['deploy::hostile/1.0:v1', 'deploy::app/1.0:v1']],
    ['zlib@1.3', ['deploy::app/1.0:v1']],
    ['hdf5@1.14', ['deploy::app/1.0:v1']],
    ['hdf5@1.12:1.14', ['deploy::app/1.0:v1']],
    ['hdf5@=1.14.3', ['deploy::app/1.0:v1']],
    ['hdf5 @1.14: +mpi %gcc@13', ['deploy::app/1.0:v1']],
    ['hdf5 api=v110', ['deploy::app/1.0:v1']],
    ['hdf5@1.15:', []],
    ['app +mpi', []],
    ['hdf5 app', ['deploy::app/1.0:v1']],
    ['hdf5~mpi', []],
    ['hdf5%gcc@14:', []],
    ['hdf5 zlib', ['deploy::app/1.0:v1']],
    ['app/2.0', ['deploy::app/2.0:v1']],
    ['app@here%x86_64 :v1 /1.0', ['deploy::app/1.0:v1']],
    ['hostile', ['deploy::hostile/1.0:v1']],
    ['nothing-of-this-name', []],
    ['</script><img src=x onerror=alert(1)>', []],
  ]) {
    await box.fill(text);
    assert.deepStrictEqual((await results(page, found.length)).sort(), found.sort(), text);
  }
  await box.fill('hdf');
  await results(page, 0);
  assert.strictEqual(await page.textContent('#packages'), 'Packages: hdf5 (1)');
  assert.strictEqual(await page.getAttribute('#names option', 'value'), 'hdf5');
  // Filters, and an address for others.
  await box.fill('');
  await page.selectOption('#state', 'released');
  assert.deepStrictEqual(await results(page, 1), ['deploy::app/1.0:v1']);
  // The address follows when nobody has typed for a moment.
  await page.waitForURL((url) => url.hash === '#state=released');
  await page.selectOption('#tested', 'NOT TESTED');
  await results(page, 0);
  const other = await open(browser, {});
  await ready(other, url + '#q=hdf5%401.14&state=released&tested=PASSED');
  assert.deepStrictEqual(await results(other, 1), ['deploy::app/1.0:v1']);
  assert.match(await other.textContent('#images'), /hdf5@1\.14\.3/);
  await check(other, 'results');
  await other.context().close();
  await page.context().close();
}

async function keyboard(browser) {
  const page = await open(browser, {});
  await ready(page, file('index.html'));
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);
  await page.keyboard.press('Tab');
  assert.strictEqual(await focused(), 'Skip to the content');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  assert.strictEqual(await focused(), 'q');
  await page.keyboard.type('hdf5');
  await results(page, 1);
  await page.keyboard.press('Escape');
  for (let step = 0; step < 20 && await focused() !== 'deploy::app/1.0:v1'; step++) await page.keyboard.press('Tab');
  await Promise.all([page.waitForURL(/\/i\/deploy\/[0-9a-f]{16}\.html$/), page.keyboard.press('Enter')]);
  assert.match(await page.textContent('h1'), /app\/1\.0:v1@here%x86_64/);
  await page.context().close();
}

async function withoutScripts(browser) {
  const page = await open(browser, { javaScriptEnabled: false });
  await page.goto(file('index.html'));
  assert.ok(await page.isHidden('#search'));
  assert.ok(await page.isVisible('noscript p'));
  await page.click('nav a:text("Images")');
  await page.click('main a:text("app/1.0:v1")');
  assert.match(await page.textContent('#evidence + div'), /PASSED/);
  await page.click('main a:text("hdf5")');
  assert.match(await page.textContent('main'), /1 image has it/);
  await page.context().close();
}

async function hostile(browser) {
  const page = await open(browser, {});
  await page.goto(file('images.html'));
  await page.click('main a:text("hostile")');
  assert.match(await page.textContent('.text'), /<\/script><script>alert/);
  assert.strictEqual(await page.locator('main img, main script').count(), 0);
  const feed = fs.readFileSync(path.join(directory, 'changes.atom'), 'utf8');
  const entries = await page.evaluate((feed) => {
    const read = new DOMParser().parseFromString(feed, 'application/xml');
    return read.querySelector('parsererror') ? read.documentElement.textContent : read.querySelectorAll('entry').length;
  }, feed);
  assert.ok(entries > 2, entries);
  await page.context().close();
}

// What a screen reader gets of the first page.
async function tree(browser) {
  const page = await open(browser, {});
  await ready(page, file('index.html'));
  const text = await page.locator('body').ariaSnapshot();
  for (const part of ['banner', 'navigation "Catalog"', 'main', 'search', 'combobox "Images or packages"',
    'combobox "System"', 'status', 'columnheader "image"', 'contentinfo']) {
    assert.ok(text.includes(part), part + '\n' + text);
  }
  await page.context().close();
}

(async () => {
  const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox'] });
  try {
    await everyPage(browser);
    await search(browser, file('index.html'));
    await search(browser, address + 'index.html');
    await keyboard(browser);
    await withoutScripts(browser);
    await hostile(browser);
    await tree(browser);
    assert.deepStrictEqual(said, []);
  } finally {
    await browser.close();
  }
})().catch((error) => {
  console.error(error, said);
  process.exitCode = 1;
});
