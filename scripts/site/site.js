// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// What the theme leaves out for screen readers and for use by keyboard alone.
'use strict';
{
  const each = (selector, change) => document.querySelectorAll(selector).forEach(change);

  const complete = () => {
    // A dialog needs a name.
    each('.md-search:not([aria-label])', (search) => search.setAttribute('aria-label', 'Search'));
    // The theme makes a navigation landmark of each code block's button.
    each('.md-code__nav:not([role])', (buttons) => buttons.setAttribute('role', 'none'));
    // What scrolls must be reached by keyboard.
    each('.md-typeset__scrollwrap', (table) => {
      if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
      else table.removeAttribute('tabindex');
    });
  };
  complete();
  addEventListener('resize', complete);
  // The theme adds buttons when their block comes into view.
  new MutationObserver(complete).observe(document.querySelector('main'), { childList: true, subtree: true });
}
