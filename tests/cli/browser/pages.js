// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// Pages with plots in Chromium: `node pages.js CHROMIUM FILE…`. Each page is opened wide and on a phone, light, dark,
// and with forced colors. Nothing may be asked for, and no policy be violated.
'use strict';
const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { chromium } = require('playwright-core');
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const [program, ...files] = process.argv.slice(2);
const LOOKS = [
  { viewport: { width: 1200, height: 800 } },
  { viewport: { width: 400, height: 800 } },
  { viewport: { width: 1200, height: 800 }, colorScheme: 'dark' },
  { viewport: { width: 400, height: 800 }, colorScheme: 'dark' },
  { viewport: { width: 400, height: 800 }, forcedColors: 'active' },
];
const said = [];

async function open(browser, options, url) {
  const page = await (await browser.newContext(options)).newPage();
  page.on('console', (message) => said.push(url + ': ' + message.text()));
  page.on('pageerror', (error) => said.push(url + ': ' + error.message));
  page.on('dialog', (dialog) => { said.push(url + ': dialog ' + dialog.message()); dialog.dismiss(); });
  page.on('request', (request) => {
    if (request.url() !== url && request.url() !== 'data:,') said.push(url + ' asks for ' + request.url());
  });
  await page.goto(url);
  return page;
}

async function accessible(page, name) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run({ preload: false }));
  const shown = found.violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.html).join(' '));
  assert.deepStrictEqual(shown, [], name);
  assert.ok(found.passes.length > 10, name);
}

// Every mark of a plot has a color that differs from what is behind it.
async function visible(page, name) {
  const marks = await page.$$eval('figure.plot svg *', (elements) => elements.map((element) => {
    const style = getComputedStyle(element);
    return [style.fill, style.stroke];
  }));
  const back = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.ok(marks.length > 5, name);
  for (const [fill, stroke] of marks) {
    assert.ok((fill !== 'none' && fill !== back) || (stroke !== 'none' && stroke !== back), name + ' ' + fill + ' ' + stroke);
  }
}

async function look(browser, file, options) {
  const name = path.basename(file) + ' ' + JSON.stringify(options);
  const page = await open(browser, options, 'file://' + file);
  // A table that is closed is no part of the width.
  await page.$$eval('details', (all) => all.forEach((one) => { one.open = true; }));
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= options.viewport.width, name + ' is ' + width + ' wide');
  await visible(page, name);
  await accessible(page, name);
  const outside = await page.$$eval('figure.plot svg', (drawings) => drawings.flatMap((drawing) => {
    const frame = drawing.getBoundingClientRect();
    return [...drawing.querySelectorAll('text')].filter((text) => {
      const box = text.getBoundingClientRect();
      return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
    }).map((text) => text.textContent.trim());
  }));
  assert.deepStrictEqual(outside, [], name + ': texts leave the plot');
  await page.context().close();
}

// What a screen reader gets: a text for each plot, and its numbers as a table.
async function tree(browser, file) {
  const page = await open(browser, {}, 'file://' + file);
  const plots = await page.locator('figure.plot').count();
  assert.ok(plots > 0, file);
  for (let number = 0; number < plots; number++) {
    const figure = page.locator('figure.plot').nth(number);
    assert.match(await figure.ariaSnapshot(), /img "[^"]{10,}/, file);
    await figure.locator('summary').click();
    assert.match(await figure.ariaSnapshot(), /- table/, file);
  }
  assert.strictEqual(await page.locator('main img, script, iframe, object').count(), 0, file);
  await page.context().close();
}

(async () => {
  const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox'] });
  try {
    for (const file of files) {
      for (const options of LOOKS) await look(browser, file, options);
      await tree(browser, file);
    }
    assert.deepStrictEqual(said, []);
  } finally {
    await browser.close();
  }
})().catch((error) => {
  console.error(error, said);
  process.exitCode = 1;
});
