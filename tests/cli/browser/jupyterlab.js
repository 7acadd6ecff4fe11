// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// A notebook of JupyterLab in Chromium: `node jupyterlab.js CHROMIUM ADDRESS KERNEL CELL TEXT`. A person chooses the
// kernel, by the name that is shown, runs the cell, and reads the text below it.
'use strict';
const assert = require('node:assert');
const { chromium } = require('playwright-core');

const [program, address, kernel, cell, text] = process.argv.slice(2);
const timeout = 120000;

async function main() {
  const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox'] });
  try {
    const page = await browser.newPage();
    page.setDefaultTimeout(timeout);
    await page.goto(address);
    const card = page.locator('.jp-LauncherCard[data-category="Notebook"]', { hasText: kernel });
    await card.click();
    await page.locator('.jp-Notebook .jp-Cell').first().waitFor();
    await page.locator('.jp-Toolbar-kernelName', { hasText: kernel }).waitFor();
    await page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').first().waitFor();
    await page.locator('.jp-Notebook .cm-content').first().click();
    await page.keyboard.type(cell);
    await page.keyboard.press('Shift+Enter');
    const output = page.locator('.jp-OutputArea-output').first();
    await output.waitFor();
    assert.strictEqual((await output.textContent()).trim(), text);
    if (process.env.SCREENSHOT) await page.screenshot({ path: process.env.SCREENSHOT });
  } finally {
    await browser.close();
  }
}

main().catch((error) => { console.error(error); process.exit(1); });
