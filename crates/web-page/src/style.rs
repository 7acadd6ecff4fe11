// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The style of pages, and the policy of a page that has it inside and runs no script.

use sha2::{Digest as _, Sha256};

/// Every outcome has a word. The fill and the border of its box differ too, so that the color is not the
/// only sign.
pub const STYLE: &str = "\
:root{color-scheme:light dark;--text:#222;--faint:#595959;--line:#d5d5d5;--back:#fff;--soft:#f4f4f4;--link:#0b57d0;\
--p:#1a6b35;--f:#b3261e;--e:#8a4b00;--n:#595959;--band:#cfe8d6}
@media(prefers-color-scheme:dark){:root{--text:#ddd;--faint:#aaa;--line:#444;--back:#181818;--soft:#242424;\
--link:#8ab4f8;--p:#7bd88f;--f:#ff8a80;--e:#ffb95c;--n:#b0b0b0;--band:#26472f}}
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
.faint{color:var(--faint)}
.text{white-space:pre-wrap;overflow-wrap:anywhere;margin:.2em 0}
details{border-top:1px solid var(--line);padding:.3em 0}
summary{cursor:pointer;display:list-item;margin-left:1em}
details>div{padding:.2em 0 1em 1em;scroll-margin-top:4em}
div:target{border-left:4px solid var(--link)}
ol,main ul{padding-left:1.4em}li{margin:.3em 0}
code,pre{font:13px/1.45 monospace;overflow-wrap:anywhere}
pre{white-space:pre-wrap;background:var(--soft);padding:.8em;margin:.5em 0}
svg{display:block;width:100%;min-width:6em;max-width:13em;height:auto}
.plot{min-width:6em;width:13em}
.w{overflow-wrap:break-word}
.axis{stroke:var(--line)}.band{fill:var(--band);stroke:var(--p)}.ref{stroke:var(--text);stroke-width:2;stroke-dasharray:3 2}
.in{fill:var(--text)}.out{fill:var(--f);stroke:var(--text)}
@media(max-width:40em){body{margin:1em auto;padding:0 .7em}th,td{padding-right:.4em}details>div{padding-left:.3em}.plot{width:6.5em}}";

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
