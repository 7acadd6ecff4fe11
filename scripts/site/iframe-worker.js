// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// The search of the theme is a worker. Browsers start no worker from file://, so it runs in a hidden frame there.
'use strict';
if (location.protocol === 'file:') {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement('iframe');
      frame.hidden = true;
      frame.title = 'Search';
      document.body.append(frame);
      // Without this, Firefox replaces the empty document later.
      frame.contentDocument.open();
      frame.contentDocument.close();
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent('message', { data }));
      this.loaded = new Promise((done) => {
        const script = frame.contentDocument.createElement('script');
        script.src = url;
        script.onload = done;
        frame.contentDocument.documentElement.append(script);
      });
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent('message', { data })));
    }
  };
}
