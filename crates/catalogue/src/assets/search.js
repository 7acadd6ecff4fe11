// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// The search. Data come as scripts that call `catalogue`, since a page from a file can load nothing else.
// Texts become text nodes, so that none of them is part of the page.
'use strict';
(function () {
  const ROWS = 50;
  const NAMES = 12;
  const parts = new Map();
  const waiting = new Map();
  const loads = new Map();
  let images, names, numbersOf, starts, texts, count;
  let shown = ROWS;
  let latest = 0;

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

  // Ascending numbers: distances in bytes of seven bits, the lowest first.
  function numbers(text) {
    const found = [];
    let number = 0, value = 0, shift = 0;
    for (const character of atob(text)) {
      const byte = character.charCodeAt(0);
      value += (byte & 127) * Math.pow(2, shift);
      shift += 7;
      if (byte < 128) {
        number += value;
        found.push(number);
        value = shift = 0;
      }
    }
    return found;
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
        wanted.push({ isLabel: labelTest(word.toLowerCase()), spec: one, isPackage: false });
      }
      if (isOfPackage) last.isPackage = true;
    }
    return wanted;
  }

  const LABEL = /^(?:([^/:@%]*)::)?([^/:@%]*)(?:\/([^:@%]*))?(?::([^@%]*))?(?:@([^%]*))?(?:%(.*))?$/;

  const PARTS = ['namespace', 'name', 'version', 'tag', 'system', 'uarch'];

  // Takes a word to a test of rows: `prgenv-gnu`, `/24.11`, `:v2`, `@daint`, `%gh200`, several of them, or any other part of a
  // label. Texts are compared once, rows by their numbers.
  function labelTest(word) {
    const found = LABEL.exec(word) || [];
    const conditions = [];
    PARTS.forEach(function (part, place) {
      const wanted = found[place + 1];
      if (!wanted || (part === 'system' && wanted === '*')) return;
      const is = part === 'name' ? (text) => text.startsWith(wanted) : (text) => text === wanted;
      conditions.push([images[part].rows, images[part].texts.map((text) => is(text.toLowerCase()))]);
    });
    return function (row) {
      if (texts[row].includes(word)) return true;
      if (!found.length) return false;
      for (const [rows, allowed] of conditions) {
        if (!allowed[rows[row]]) return false;
      }
      return true;
    };
  }

  async function search() {
    const mine = ++latest;
    const typed = element('q').value;
    const wanted = read(typed);
    const filters = ['namespace', 'system', 'uarch', 'state', 'tested']
      .filter((id) => element(id) && element(id).value)
      .map((id) => [id, element(id).value]);
    const found = [];
    const numbersFor = (one) => (one.spec && numbersOf.get(plain(one.spec.name))) || [];
    const fileOf = (number) => names.files[number] || names.texts[number];
    // All at once: each file takes a round trip.
    wanted.flatMap(numbersFor).forEach((number) => load(fileOf(number)));
    for (const one of wanted) {
      for (const number of numbersFor(one)) {
        const name = names.texts[number];
        const file = fileOf(number);
        if (!parts.has('package:' + file)) element('status').textContent = 'Loading…';
        const builds = await load(file);
        if (mine !== latest) return;
        if (!builds) {
          element('status').textContent = 'The data of ' + name + ' cannot be loaded.';
          return;
        }
        one.rows = one.rows || new Map();
        for (const build of builds) {
          if (!fits(one.spec, build)) continue;
          const title = name + (build[0] ? '@' + build[0] : '');
          for (const row of numbers(build[3])) {
            if (!one.rows.has(row)) one.rows.set(row, title);
          }
        }
      }
    }
    for (let row = count - 1; row >= 0; row--) {
      if (!filters.every(([part, value]) => column(part, row) === value)) continue;
      if (wanted.every((one) => (one.rows && one.rows.has(row)) || (!one.isPackage && one.isLabel(row)))) found.push(row);
    }
    show(found, wanted, typed.trim() !== '' || filters.length > 0);
    suggest(typed);
    remember(typed, filters);
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
        line.append(cell('td', packages.map((one) => one.rows.get(row)).filter(Boolean).join(', ')));
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
