// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// The search. Data come as scripts that call `catalogue`, since a page from a file can load nothing else.
// Texts become text nodes, so that none of them is part of the page.
'use strict';
(function () {
  const ROWS = 25;
  const NAMES = 12;
  // After how many milliseconds a search is slow, and somebody has paused typing.
  const PATIENCE = 200;
  const parts = new Map();
  const waiting = new Map();
  const loads = new Map();
  let images, names, numbersOf, starts, texts, count;
  let shown = ROWS;
  let latest = 0;
  let slow, typing;

  window.catalogue = function (name, value) {
    parts.set(name, value);
    const ready = waiting.get(name);
    if (ready) ready();
  };

  // Names of Python packages are the same with `-`, `_`, and `.`, large and small.
  const plain = (name) => name.toLowerCase().replace(/[_.]/g, '-');

  const element = (id) => document.getElementById(id);

  // Data of one package, or null if the file cannot be loaded.
  // One that fails is asked for again by the next search.
  function load(file) {
    const name = 'package:' + file;
    if (!loads.has(name)) {
      loads.set(name, new Promise(function (done) {
        const end = function () {
          if (!parts.has(name)) loads.delete(name);
          done(parts.get(name) || null);
        };
        waiting.set(name, end);
        const script = document.createElement('script');
        script.src = 'data/p/' + encodeURIComponent(file) + '.js';
        script.onerror = end;
        document.head.append(script);
      }));
    }
    return loads.get(name);
  }

  const column = (part, row) => images[part].texts[images[part].rows[row]];
  const label = (row) => column('namespace', row) + '::' + column('name', row) + '/' +
    column('version', row) + ':' + column('tag', row);

  function page(row) {
    const id = images.long[row] || images.ids.slice(row * 16, row * 16 + 16);
    return 'i/' + column('folders', row) + '/' + id + '.html';
  }

  // Ascending numbers: distances in bytes of seven bits, the lowest first. A popular package is in every image, so this makes no
  // list of them.
  function eachNumber(text, visit) {
    const bytes = atob(text);
    let number = 0, value = 0, factor = 1;
    for (let place = 0; place < bytes.length; place++) {
      const byte = bytes.charCodeAt(place);
      value += (byte & 127) * factor;
      factor *= 128;
      if (byte < 128) {
        number += value;
        visit(number);
        value = 0;
        factor = 1;
      }
    }
  }

  // Versions are runs of digits and of letters. Names of branches are newer than numbers, other names
  // older, as in Spack.
  const BRANCHES = ['stable', 'nightly', 'trunk', 'head', 'master', 'main', 'develop'];
  const runs = (text) => text.match(/[0-9]+|[A-Za-z]+/g) || [];

  function rank(run) {
    if (/^[0-9]/.test(run)) return 1;
    return BRANCHES.includes(run) ? 2 + BRANCHES.indexOf(run) : 0;
  }

  function compare(one, other) {
    const [a, b] = [runs(one), runs(other)];
    for (let place = 0; place < Math.max(a.length, b.length); place++) {
      if (place >= a.length) return /^(alpha|beta|rc)$/.test(b[place]) ? 1 : -1;
      if (place >= b.length) return /^(alpha|beta|rc)$/.test(a[place]) ? -1 : 1;
      const [x, y] = [a[place], b[place]];
      if (x === y) continue;
      if (rank(x) !== rank(y)) return rank(x) - rank(y);
      if (rank(x) === 1 && Number(x) !== Number(y)) return Number(x) - Number(y);
      if (rank(x) !== 1) return x < y ? -1 : 1;
    }
    return 0;
  }

  function covers(prefix, version) {
    const [a, b] = [runs(prefix), runs(version)];
    return a.length <= b.length && a.every((run, place) => compare(run, b[place]) === 0);
  }

  function isIn(ranges, version) {
    return !ranges || ranges.split(',').some(function (range) {
      if (range.startsWith('=')) return range.slice(1) === version;
      const colon = range.indexOf(':');
      if (colon < 0) return covers(range, version);
      const [low, high] = [range.slice(0, colon), range.slice(colon + 1)];
      return (!low || covers(low, version) || compare(low, version) <= 0) &&
        (!high || covers(high, version) || compare(version, high) <= 0);
    });
  }

  // Takes `name@versions+variant~variant%compiler@versions` apart.
  function spec(word) {
    const found = /^([A-Za-z0-9_.-]*)(?:@([^+~%]*))?((?:[+~][A-Za-z0-9_-]+)*)(?:%([^@+~%]+)(?:@([^+~%]*))?)?$/.exec(word);
    if (!found) return null;
    const variants = found[3].match(/[+~][A-Za-z0-9_-]+/g) || [];
    return { name: found[1], versions: found[2] || '', variants: variants, values: [],
      compiler: found[4] || '', compilers: found[5] || '' };
  }

  function hasVariant(text, variant) {
    return text.split(/\s+/).some(function (part) {
      return !part.includes('=') && (part.match(/[+~-][A-Za-z0-9_]+/g) || [])
        .some((one) => one.slice(1) === variant.slice(1) && (one[0] === '+') === (variant[0] === '+'));
    });
  }

  function hasValue(text, wanted) {
    const [name, value] = [wanted.slice(0, wanted.indexOf('=')), wanted.slice(wanted.indexOf('=') + 1)];
    return text.split(/\s+/).some(function (part) {
      const place = part.indexOf('=');
      return place > 0 && part.slice(0, place).replace(/:$/, '') === name &&
        part.slice(place + 1).replace(/'/g, '').split(',').includes(value);
    });
  }

  function fits(pattern, build) {
    const [version, variants, compilers] = build;
    return isIn(pattern.versions, version) &&
      pattern.variants.every((one) => hasVariant(variants, one)) &&
      pattern.values.every((one) => hasValue(variants, one)) &&
      (!pattern.compiler || compilers.split(',').some(function (one) {
        const at = (one + '@').indexOf('@');
        return one.slice(0, at) === pattern.compiler && isIn(pattern.compilers, one.slice(at + 1));
      }));
  }

  const isUarch = (text) => images.uarch.texts.includes(text);

  // Cuts what was typed into things that an image must have. What begins with a sign belongs to the
  // package before it, or is a part of a label.
  function read(text) {
    const wanted = [];
    for (const word of text.split(/\s+/).filter(Boolean)) {
      const last = wanted[wanted.length - 1];
      const before = last && last.spec && last.spec.name ? last.spec : null;
      const made = /^%/.test(word) && !isUarch(word.slice(1)) && before ? spec(word) : null;
      let isOfPackage = true;
      if (made) {
        Object.assign(before, { compiler: made.compiler, compilers: made.compilers });
      } else if (/^[+~]/.test(word) && before) {
        before.variants.push(...(word.match(/[+~][A-Za-z0-9_-]+/g) || []));
      } else if (/^[A-Za-z0-9_]+=/.test(word) && before) {
        before.values.push(word);
      } else if (/^@/.test(word) && before && !images.system.texts.includes(word.slice(1))) {
        before.versions = word.slice(1);
      } else {
        isOfPackage = false;
        const one = /^[@%/:]/.test(word) ? null : spec(word);
        wanted.push({ word: word.toLowerCase(), spec: one, isPackage: false });
      }
      if (isOfPackage) last.isPackage = true;
    }
    return wanted;
  }

  const LABEL = /^(?:([^/:@%]*)::)?([^/:@%]*)(?:\/([^:@%]*))?(?::([^@%]*))?(?:@([^%]*))?(?:%(.*))?$/;

  const PARTS = ['namespace', 'name', 'version', 'tag', 'system', 'uarch'];

  // Returns for each value of a part whether it fits. Texts are compared once, rows by their numbers.
  function fitting(part, test) {
    return Uint8Array.from(images[part].texts, (text) => test(text.toLowerCase()));
  }

  // Leaves the rows that have a word in their label: `prgenv-gnu`, `/24.11`, `:v2`, `@daint`, `%gh200`, several of them, or any
  // other part of it. Rows that a package has stay.
  function leaveLabels(left, word, stay) {
    if (stay && left.every((is, row) => !is || stay[row])) return;
    const found = LABEL.exec(word);
    const hits = new Uint8Array(count).fill(found ? 1 : 0);
    PARTS.forEach(function (part, place) {
      const wanted = found && found[place + 1];
      if (!wanted || (part === 'system' && wanted === '*')) return;
      const allowed = fitting(part, (text) => part === 'name' ? text.startsWith(wanted) : text === wanted);
      const rows = images[part].rows;
      for (let row = 0; row < count; row++) hits[row] &= allowed[rows[row]];
    });
    for (let row = 0; row < count; row++) {
      if (left[row] && !hits[row] && !(stay && stay[row]) && !texts[row].includes(word)) left[row] = 0;
    }
  }

  // Returns the rows that have all that is wanted, the newest first.
  function rowsWith(wanted, filters) {
    const left = new Uint8Array(count).fill(1);
    for (const [part, value] of filters) {
      const { rows, texts } = images[part];
      const wantedRow = texts.indexOf(value);
      for (let row = 0; row < count; row++) left[row] &= rows[row] === wantedRow;
    }
    for (const one of wanted) {
      if (!one.isPackage) {
        leaveLabels(left, one.word, one.rows);
      } else {
        for (let row = 0; row < count; row++) left[row] &= one.rows && one.rows[row] ? 1 : 0;
      }
    }
    const found = [];
    for (let row = count - 1; row >= 0; row--) {
      if (left[row]) found.push(row);
    }
    return found;
  }

  async function search() {
    const mine = ++latest;
    const typed = element('q').value;
    const wanted = read(typed);
    const filters = ['namespace', 'system', 'uarch', 'state', 'tested']
      .filter((id) => element(id) && element(id).value)
      .map((id) => [id, element(id).value]);
    const numbersFor = (one) => (one.spec && numbersOf.get(plain(one.spec.name))) || [];
    const fileOf = (number) => names.files[number] || names.texts[number];
    // All at once: each file takes a round trip.
    wanted.flatMap(numbersFor).forEach((number) => load(fileOf(number)));
    clearTimeout(slow);
    slow = setTimeout(function () { element('status').textContent = 'Loading…'; }, PATIENCE);
    for (const one of wanted) {
      for (const number of numbersFor(one)) {
        const name = names.texts[number];
        const file = fileOf(number);
        const builds = await load(file);
        if (mine !== latest) return;
        if (!builds) {
          clearTimeout(slow);
          element('status').textContent = 'The data of ' + name + ' cannot be loaded.';
          return;
        }
        one.titles = one.titles || [''];
        one.rows = one.rows || new Uint32Array(count);
        const { titles, rows } = one;
        for (const build of builds) {
          if (!fits(one.spec, build)) continue;
          const title = titles.push(name + (build[0] ? '@' + build[0] : '')) - 1;
          eachNumber(build[3], function (row) { if (!rows[row]) rows[row] = title; });
        }
      }
    }
    clearTimeout(slow);
    show(rowsWith(wanted, filters), wanted, typed.trim() !== '' || filters.length > 0);
    suggest(typed);
    clearTimeout(typing);
    typing = setTimeout(() => remember(typed, filters), PATIENCE);
  }

  function cell(kind, text) {
    const made = document.createElement(kind);
    made.textContent = text;
    return made;
  }

  const STATES = { released: 'p', deprecated: 'e', retired: 'e', revoked: 'f', 'not released': 'n' };
  const OUTCOMES = { PASSED: 'p', FAILED: 'f', ERROR: 'e', 'NOT TESTED': 'n' };

  function chip(text, classes) {
    const made = cell('td', '');
    if (text) {
      const box = cell('span', text);
      box.className = 'o ' + (classes[text] || 'u');
      made.append(box);
    }
    return made;
  }

  function show(found, wanted, isSearch) {
    const packages = wanted.filter((one) => one.rows);
    const table = element('images');
    const head = document.createElement('tr');
    const columns = ['image', 'system', 'microarchitecture', 'state', 'tested', 'size', 'date'];
    if (packages.length) columns.splice(1, 0, 'found');
    for (const name of columns) {
      const made = cell('th', name);
      made.scope = 'col';
      head.append(made);
    }
    const body = [head];
    for (const row of found.slice(0, shown)) {
      const line = document.createElement('tr');
      const link = cell('a', label(row));
      link.href = page(row);
      const title = cell('th', '');
      title.scope = 'row';
      title.append(link);
      line.append(title);
      if (packages.length) {
        line.append(cell('td', packages.map((one) => one.titles[one.rows[row]]).filter(Boolean).join(', ')));
      }
      line.append(cell('td', column('system', row)), cell('td', column('uarch', row)),
        chip(column('state', row), STATES), chip(column('tested', row), OUTCOMES),
        cell('td', column('size', row)), cell('td', column('date', row)));
      body.push(line);
    }
    const rows = document.createElement('tbody');
    rows.append(...body);
    table.replaceChildren(rows);
    element('heading').textContent = isSearch ? 'Results' : 'Newest images';
    const number = found.length === 1 ? '1 image' : found.length + ' images';
    element('status').textContent = isSearch ? number + ' of ' + count : '';
    element('more').hidden = found.length <= shown;
  }

  // Offers packages whose names begin with the last word.
  function suggest(typed) {
    const start = typed.replace(/[^\s]*$/, '');
    const word = typed.slice(start.length).toLowerCase();
    const list = [];
    for (let number = 0; word && number < names.texts.length && list.length < NAMES; number++) {
      if (starts[number].startsWith(word)) list.push(number);
    }
    element('names').replaceChildren(...list.map(function (number) {
      const option = document.createElement('option');
      option.value = start + names.texts[number];
      return option;
    }));
    const line = element('packages');
    line.hidden = list.length === 0;
    line.replaceChildren(list.length ? 'Packages: ' : '');
    list.forEach(function (number, place) {
      const link = cell('a', names.texts[number]);
      link.href = 'p/' + encodeURIComponent(names.files[number] || names.texts[number]) + '.html';
      line.append(place ? ', ' : '', link, ' (' + names.counts[number] + ')');
    });
  }

  // Keeps what was typed in the address, so that it can be sent to others.
  function remember(typed, filters) {
    const all = new URLSearchParams();
    if (typed) all.set('q', typed);
    for (const [part, value] of filters) all.set(part, value);
    const text = all.toString();
    if (location.hash.replace(/^#/, '') !== text) history.replaceState(null, '', text ? '#' + text : location.pathname);
  }

  function recall() {
    const all = new URLSearchParams(location.hash.replace(/^#/, ''));
    element('q').value = all.get('q') || '';
    for (const id of ['namespace', 'system', 'uarch', 'state', 'tested']) {
      const choice = element(id);
      if (!choice) continue;
      choice.value = all.get(id) || '';
      if (choice.selectedIndex < 0) choice.value = '';
    }
  }

  function again() {
    shown = ROWS;
    search();
  }

  document.addEventListener('DOMContentLoaded', function () {
    images = parts.get('images');
    names = parts.get('names');
    if (!images || !names) return;
    count = images.name.rows.length;
    numbersOf = new Map();
    names.texts.forEach(function (name, number) {
      numbersOf.set(plain(name), (numbersOf.get(plain(name)) || []).concat(number));
    });
    starts = names.texts.map((name) => name.toLowerCase());
    texts = new Array(count);
    for (let row = 0; row < count; row++) {
      texts[row] = (label(row) + '@' + column('system', row) + '%' + column('uarch', row)).toLowerCase();
    }
    recall();
    const form = element('search');
    form.hidden = false;
    form.addEventListener('submit', function (event) { event.preventDefault(); });
    form.addEventListener('input', again);
    window.addEventListener('hashchange', function () { recall(); again(); });
    element('more').addEventListener('click', function () {
      const first = shown;
      shown += ROWS;
      search().then(function () {
        const links = element('images').querySelectorAll('a');
        if (links[first]) links[first].focus();
      });
    });
    if (location.hash.length > 1) search();
    else element('more').hidden = count <= document.querySelectorAll('#images a').length;
    document.documentElement.dataset.ready = 'yes';
  });
})();
