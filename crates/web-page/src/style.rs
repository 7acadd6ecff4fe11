// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The style of pages, and the policy of a page that has it inside and runs no script.

use sha2::{Digest as _, Sha256};

/// Every outcome has a word. The fill and the border of its box differ too, so that the color is not the
/// only sign.
pub const STYLE: &str = "\
:root{color-scheme:light dark;--text:#222;--faint:#595959;--line:#d5d5d5;--back:#fff;--soft:#f4f4f4;--link:#0b57d0;\
--p:#1a6b35;--f:#b3261e;--e:#8a4b00;--n:#595959;--band:#cfe8d6;\
--c1:#1f6fb2;--c2:#b0530a;--c3:#1a7f4b;--c4:#8a3fa8;--c5:#0e7a85;--c6:#7a5230}
@media(prefers-color-scheme:dark){:root{--text:#ddd;--faint:#aaa;--line:#444;--back:#181818;--soft:#242424;\
--link:#8ab4f8;--p:#7bd88f;--f:#ff8a80;--e:#ffb95c;--n:#b0b0b0;--band:#26472f;\
--c1:#6db3f2;--c2:#f2a65a;--c3:#6fd08c;--c4:#d3a4ee;--c5:#5cc8d2;--c6:#cfa986}}
@media(forced-colors:active){:root{--text:CanvasText;--line:GrayText;--back:Canvas;--f:LinkText;--band:GrayText;\
--c1:CanvasText;--c2:CanvasText;--c3:CanvasText;--c4:CanvasText;--c5:CanvasText;--c6:CanvasText}}
*{box-sizing:border-box}
body{font:15px/1.5 sans-serif;margin:2em auto;max-width:75em;padding:0 1em;color:var(--text);background:var(--back)}
h1{font-size:1.6em;line-height:1.25;overflow-wrap:anywhere}h2{font-size:1.3em;margin-top:2em}h3{font-size:1em;display:inline;overflow-wrap:anywhere}h4{font-size:1em;margin:1.2em 0 .3em}
a{color:var(--link)}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}
nav ul{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.3em 1.5em}
nav a,summary{display:inline-block;padding:.2em 0}
table{border-collapse:collapse;margin:.3em 0 1em}
caption{text-align:left;color:var(--faint);padding-bottom:.3em}
th,td{text-align:left;padding:.3em .8em .3em 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
th{font-weight:600}
.s{overflow-x:auto;position:relative}
.s th,.s td{white-space:nowrap}
.s th:first-child{position:sticky;left:0;background:var(--back)}
.o{display:inline-block;padding:0 .5em;border:2px solid;border-radius:.3em;font-size:.85em;font-weight:600;white-space:nowrap}
.p{color:var(--p)}.n{color:var(--n);border-style:dotted}.u{color:var(--faint);border-color:transparent}
.f{background:var(--f);color:var(--back);border-color:var(--f)}
.e{background:var(--e);color:var(--back);border-color:var(--e);border-style:dashed;outline:1px solid var(--e)}
.v{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.faint{color:var(--faint)}.bad{color:var(--f);font-weight:600}.r{text-align:right;font-variant-numeric:tabular-nums}
.text{white-space:pre-wrap;overflow-wrap:anywhere;margin:.2em 0}
details{border-top:1px solid var(--line);padding:.3em 0}th details{border:0;font-weight:400}
summary{cursor:pointer;display:list-item;margin-left:1em}
details>div{padding:.2em 0 1em 1em;scroll-margin-top:4em}
div:target{border-left:4px solid var(--link)}
ol,main ul{padding-left:1.4em}li{margin:.3em 0}
code,pre{font:13px/1.45 monospace;overflow-wrap:anywhere}
pre{white-space:pre-wrap;background:var(--soft);padding:.8em;margin:.5em 0}
.w{overflow-wrap:break-word}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(26em,100%),1fr));gap:0 2.5em}
figure{margin:1.2em 0;max-width:36em;min-width:0}figcaption{margin-bottom:.4em;overflow-wrap:anywhere}
svg{display:block;width:100%;height:auto}svg text{fill:var(--text)}
ul.legend{list-style:none;padding:0;margin:.2em 0 .5em;display:flex;flex-wrap:wrap;gap:.1em 1.2em;font-size:.9em;overflow-wrap:anywhere}
.legend svg{display:inline-block;width:34px;vertical-align:-2px}
[fill=\"#222222\"]{fill:var(--text)}[stroke=\"#222222\"]{stroke:var(--text)}
[stroke=\"#D5D5D5\"]{stroke:var(--line)}[fill=\"#CFE8D6\"]{fill:var(--band)}[fill=\"#B3261E\"]{fill:var(--f)}
[fill=\"#1F6FB2\"]{fill:var(--c1)}[stroke=\"#1F6FB2\"]{stroke:var(--c1)}
[fill=\"#B0530A\"]{fill:var(--c2)}[stroke=\"#B0530A\"]{stroke:var(--c2)}
[fill=\"#1A7F4B\"]{fill:var(--c3)}[stroke=\"#1A7F4B\"]{stroke:var(--c3)}
[fill=\"#8A3FA8\"]{fill:var(--c4)}[stroke=\"#8A3FA8\"]{stroke:var(--c4)}
[fill=\"#0E7A85\"]{fill:var(--c5)}[stroke=\"#0E7A85\"]{stroke:var(--c5)}
[fill=\"#7A5230\"]{fill:var(--c6)}[stroke=\"#7A5230\"]{stroke:var(--c6)}
@media(max-width:40em){body{margin:1em auto;padding:0 .7em}th,td{padding-right:.4em}details>div{padding-left:.3em}}";

/// Returns the policy: the style above and images in the page itself, and nothing else.
#[must_use]
pub fn policy() -> String {
    let hash = base64(&Sha256::digest(STYLE.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
}

/// Returns bytes in Base64, with padding.
#[must_use]
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |place: usize| u32::from(three.get(place).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = (bits >> (18 - 6 * place)) & 63;
            let digit = usize::try_from(digit).ok().and_then(|digit| DIGITS.get(digit));
            let digit = digit.filter(|_| place <= three.len());
            text.push(digit.map_or('=', |digit| char::from(*digit)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_has_the_whole_sum_of_the_style() {
        let policy = policy();
        let hash = policy.split("'sha256-").nth(1).unwrap().split('\'').next().unwrap();
        assert!(hash.len() == 44 && hash.ends_with('='), "{hash}");
        assert!(!STYLE.contains("</") && !STYLE.contains("url("));
    }

    #[test]
    fn base64_fills_up() {
        let texts = ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes()));
        assert_eq!(texts, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }
}
