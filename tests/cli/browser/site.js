// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// The documentation site in Chromium, from files: `node site.js CHROMIUM DIRECTORY`.
'use strict';
const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { chromium } = require('playwright-core');
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const [program, directory] = process.argv.slice(2);
const file = (name) => 'file://' + path.join(path.resolve(directory), name);
const said = [];

// Pages with console blocks, tables, code in lists, much text, and much of everything.
const SAMPLE = ['index.html', 'docs/index.html', 'docs/guides/first-environment.html', 'docs/guides/jupyter-and-editors.html',
  'docs/concepts/recipe-format.html', 'docs/reference/configuration.html', 'docs/reference/json.html',
  'docs/reference/commands.html', 'docs/performance.html', 'docs/design/0001-workspace.html'];

// A page whose every message is kept. Nothing outside of the site may be asked for.
async function open(browser, options) {
  const page = await (await browser.newContext(options)).newPage();
  const where = () => ' in ' + page.url();
  page.on('console', (message) => said.push(message.text() + where()));
  page.on('pageerror', (error) => said.push(error.message + where()));
  page.on('requestfailed', (request) => said.push('cannot load ' + request.url() + where()));
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(file('')) && !url.startsWith('data:')) said.push('asks for ' + url + where());
  });
  return page;
}

function pages(below) {
  const names = fs.readdirSync(path.join(directory, below), { withFileTypes: true });
  return names.flatMap((entry) => {
    const name = path.join(below, entry.name);
    return entry.isDirectory() ? pages(name) : name.endsWith('.html') ? [name] : [];
  });
}

async function everyPage(browser) {
  const page = await open(browser, {});
  const names = pages('');
  assert.ok(names.length > 90, names.length);
  for (const name of names) {
    await page.goto(file(name));
    assert.strictEqual(await page.locator('h1').count(), 1, name);
    assert.ok(!(await page.textContent('main')).includes('SPDX-License-Identifier: Apache-2.0 OR MIT -->'), name);
  }
  await page.context().close();
}

async function accessible(browser) {
  const shown = [];
  for (const [scheme, width, names] of [['light', 1300, pages('')], ['dark', 1300, pages('')], ['light', 400, SAMPLE]]) {
    const page = await open(browser, { colorScheme: scheme, viewport: { width, height: 800 }, reducedMotion: 'reduce' });
    for (const name of names) {
      await page.goto(file(name));
      // Reports have colors of their own.
      const isOfTheme = await page.locator('.md-header').count() > 0;
      const colors = isOfTheme ? await page.getAttribute('body', 'data-md-color-scheme') : null;
      assert.strictEqual(colors, isOfTheme ? (scheme === 'dark' ? 'slate' : 'default') : null, name);
      await page.evaluate(axe);
      const found = await page.evaluate(() => window.axe.run({ preload: false, iframes: false }));
      for (const one of found.violations) {
        const nodes = one.nodes.map((node) => node.html.slice(0, 200) + ' ' + node.any.map((any) => any.message).join(' '));
        shown.push([name, scheme, width, one.id, nodes.length, ...nodes.slice(0, 3)].join('\n  '));
      }
      assert.ok(found.passes.length > 10, name);
    }
    await page.context().close();
  }
  assert.ok(shown.length === 0, shown.join('\n'));
}

// Searches by keyboard alone, below any directory.
async function search(browser) {
  for (const [name, text] of [['index.html', 'squashfuse'], ['docs/reference/commands.html', 'passthrough']]) {
    const page = await open(browser, {});
    await page.goto(file(name));
    const focused = () => page.evaluate(() => document.activeElement.matches('input.md-search__input'));
    for (let step = 0; step < 30 && !await focused(); step++) await page.keyboard.press('Tab');
    assert.ok(await focused(), 'Tab does not reach the search of ' + name);
    await page.keyboard.type(text);
    const first = page.locator('.md-search-result__link').first();
    await first.waitFor();
    assert.match(await page.textContent('.md-search-result__item mark'), new RegExp(text, 'i'));
    await page.keyboard.press('ArrowDown');
    await Promise.all([page.waitForURL(/\/docs\/.*\.html\?h=/), page.keyboard.press('Enter')]);
    assert.ok(await page.locator('h1').isVisible());
    await page.context().close();
  }
}

// The switch goes from the system's colors to light, to dark, and back, and is kept.
async function switchOfColors(browser) {
  const page = await open(browser, { colorScheme: 'dark' });
  await page.goto(file('index.html'));
  const scheme = () => page.getAttribute('body', 'data-md-color-scheme');
  const press = () => page.locator('form[data-md-component=palette] label:not([hidden])').click();
  assert.strictEqual(await scheme(), 'slate');
  await press();
  assert.strictEqual(await scheme(), 'default');
  await page.goto(file('docs/guides/slurm.html'));
  assert.strictEqual(await scheme(), 'default');
  await press();
  assert.strictEqual(await scheme(), 'slate');
  await page.context().close();
}

// The button at a block with commands copies them without prompts and output.
async function copy(browser) {
  const page = await open(browser, { permissions: ['clipboard-read', 'clipboard-write'] });
  await page.goto(file('index.html'));
  await page.locator('.language-console button.md-code__button[data-md-type=copy]').first().click();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(copied, /^tar -xf cabane-.*\n.*install.sh .*\n.*\ncabane init python analysis\n+cabane build analysis analysis\/1.0\n+cabane start/);
  assert.ok(!copied.includes('built in') && !copied.includes('$ cabane'), copied);
  await page.context().close();
}

(async () => {
  const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox'] });
  try {
    await everyPage(browser);
    await search(browser);
    await switchOfColors(browser);
    await copy(browser);
    await accessible(browser);
    assert.deepStrictEqual(said, []);
  } finally {
    await browser.close();
  }
})().catch((error) => {
  console.error(error, said);
  process.exitCode = 1;
});
