// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The values that a variant can have, as far as the text of a package recipe has them.
//!
//! Values that are computed, or that a function checks, are not known: then any value may be right.

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};

use crate::package_text::{Tokens, arguments, literal, named};
use crate::python::Token;

/// The values of a variant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// Those that are known. A variant that is on or off has none.
    pub known: BTreeSet<String>,
    /// Whether it can be on or off.
    pub is_switch: bool,
    /// Whether it may have others.
    pub is_open: bool,
}

impl Values {
    fn open() -> Self {
        Self { is_open: true, ..Self::default() }
    }

    /// Adds the values of another declaration.
    pub(crate) fn add(&mut self, other: Self) {
        self.known.extend(other.known);
        self.is_switch |= other.is_switch;
        self.is_open |= other.is_open;
    }
}

/// The tuples and lists of a file that have names.
pub(crate) struct Assignments<'a, 't> {
    /// The whole file.
    tokens: Tokens<'a, 't>,
    /// Where each opening bracket is closed.
    closings: &'a [usize],
    named: OnceCell<BTreeMap<&'t str, Option<Tokens<'a, 't>>>>,
    /// How many words may still be read: many variants may name one long list.
    rest: Cell<usize>,
}

/// How many words of values are read in a file.
const MOST: usize = 1 << 20;

/// How deep calls and lists are followed: `any_combination_of(*[conditional(…)])`.
const DEPTH: usize = 8;

/// Functions whose arguments are values, and which value each adds.
const FUNCTIONS: [(&str, Option<&str>); 4] = [
    ("any_combination_of", Some("none")),
    ("auto_or_any_combination_of", Some("auto")),
    ("disjoint_sets", Some("none")),
    ("conditional", None),
];

/// Methods of what these functions return, and whether their arguments are values.
const METHODS: [(&str, bool); 5] = [
    ("allow_empty_set", false),
    ("prohibit_empty_set", false),
    ("with_default", false),
    ("with_error", false),
    ("with_non_feature_values", true),
];

/// Returns the values of a variant, from the arguments of its declaration.
pub(crate) fn of(arguments: &[Tokens<'_, '_>], assignments: &Assignments<'_, '_>) -> Values {
    let is_name = |argument: &Tokens<'_, '_>| matches!(argument, [Token::Word(_), Token::Sign('='), rest @ ..] if rest.first() != Some(&Token::Sign('=')));
    let positional = arguments.iter().take_while(|argument| !is_name(argument)).count();
    let has_others = arguments.iter().any(|argument| argument.first() == Some(&Token::Sign('*')));
    // The fourth without a name is `values`.
    if has_others || positional > 3 {
        return Values::open();
    }
    if let Some(values) = named(arguments, "values") {
        let mut known = BTreeSet::new();
        // A text alone is a list of its letters.
        let values = Some(values).filter(|values| literal(values).is_none()).unwrap_or_default();
        return match read(values, assignments, DEPTH, &mut known) {
            Some(()) if has_switches(&known) => {
                let is_word = |value: &String| !is_switch(value);
                let known = known.into_iter().filter(is_word).collect();
                Values { known, is_switch: true, is_open: false }
            }
            Some(()) => Values { known, ..Values::default() },
            None => Values::open(),
        };
    }
    let default = named(arguments, "default");
    match default.or_else(|| arguments.get(1).copied().filter(|_| positional > 1)) {
        Some([Token::Word("True" | "False")]) => Values { is_switch: true, ..Values::default() },
        _ => Values::open(),
    }
}

/// Whether a value means on or off.
pub(crate) fn is_switch(value: &str) -> bool {
    value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false")
}

fn has_switches(values: &BTreeSet<String>) -> bool {
    values.iter().any(|value| is_switch(value))
}

/// Adds the values of an expression; nothing if they are not certain.
fn read(
    tokens: Tokens<'_, '_>,
    assignments: &Assignments<'_, '_>,
    depth: usize,
    known: &mut BTreeSet<String>,
) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    assignments.rest.set(assignments.rest.get().checked_sub(tokens.len())?);
    if let Some(value) = literal(tokens) {
        known.insert(value.to_owned());
        return Some(());
    }
    match tokens {
        [Token::Word(word)] if word.bytes().all(|byte| byte.is_ascii_digit()) => {
            known.insert((*word).to_owned());
            Some(())
        }
        [Token::Word(word @ ("True" | "False"))] => {
            known.insert((*word).to_owned());
            Some(())
        }
        [Token::Word(name)] => read(assignments.value_of(name)?, assignments, depth, known),
        [Token::Sign('*'), rest @ ..] => read(rest, assignments, depth, known),
        [Token::Sign('(' | '['), .., Token::Sign(')' | ']')] if closes_at_end(tokens, 0) => {
            let items = arguments(&tokens[1..tokens.len() - 1]);
            items.into_iter().try_for_each(|item| read(item, assignments, depth, known))
        }
        _ => call(tokens, assignments, depth, known),
    }
}

/// Adds the values of a call: `spack.variant.any_combination_of("a", "b").with_default("a")`.
fn call(
    tokens: Tokens<'_, '_>,
    assignments: &Assignments<'_, '_>,
    depth: usize,
    known: &mut BTreeSet<String>,
) -> Option<()> {
    let mut rest = tokens;
    let mut is_first = true;
    if tokens.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let open = rest.iter().position(|token| *token == Token::Sign('('))?;
        let Token::Word(name) = rest.get(open.checked_sub(1)?)? else { return None };
        let is_path = rest[..open - 1].iter().all(|token| match token {
            Token::Word(word) => is_first && matches!(*word, "spack" | "variant"),
            token => *token == Token::Sign('.'),
        });
        let close = closing(rest, open)?;
        let given = arguments(&rest[open + 1..close]);
        let is_value = |argument: &&Tokens<'_, '_>| {
            !matches!(argument, [Token::Word("when"), Token::Sign('='), ..])
        };
        let adds = if is_first {
            let (_, more) = FUNCTIONS.iter().find(|(function, _)| function == name)?;
            known.extend(more.map(str::to_owned));
            true
        } else {
            METHODS.iter().find(|(method, _)| method == name)?.1
        };
        if !is_path {
            return None;
        }
        if adds {
            given
                .iter()
                .filter(is_value)
                .try_for_each(|value| read(value, assignments, depth, known))?;
        }
        rest = &rest[close + 1..];
        is_first = false;
    }
    Some(())
}

/// Returns where the bracket at a place is closed.
fn closing(tokens: Tokens<'_, '_>, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']' | '}') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

fn closes_at_end(tokens: Tokens<'_, '_>, open: usize) -> bool {
    closing(tokens, open) == Some(tokens.len() - 1)
}

impl<'a, 't> Assignments<'a, 't> {
    pub(crate) fn new(tokens: Tokens<'a, 't>, closings: &'a [usize]) -> Self {
        Self { tokens, closings, named: OnceCell::new(), rest: Cell::new(MOST) }
    }

    /// Returns the tuple or list that a name has, if it has one alone and is not changed.
    fn value_of(&self, name: &str) -> Option<Tokens<'a, 't>> {
        self.named.get_or_init(|| self.find()).get(name).copied().flatten()
    }

    /// Finds the tuples and lists that have names; nothing for names that may have another value.
    fn find(&self) -> BTreeMap<&'t str, Option<Tokens<'a, 't>>> {
        let mut named = BTreeMap::new();
        let mut depth = 0_usize;
        for (at, token) in self.tokens.iter().enumerate() {
            let word = match token {
                Token::Sign('(' | '[' | '{') => {
                    depth += 1;
                    continue;
                }
                Token::Sign(')' | ']' | '}') => {
                    depth = depth.saturating_sub(1);
                    continue;
                }
                Token::Word(word) => *word,
                _ => continue,
            };
            let before = at.checked_sub(1).map(|before| &self.tokens[before]);
            let begins = matches!(before, None | Some(Token::End));
            let next = self.tokens.get(at + 1);
            let value = match (next, self.tokens.get(at + 2)) {
                (Some(Token::Sign('=')), Some(Token::Sign('(' | '['))) if begins => {
                    self.bracket(at + 2).filter(|_| !named.contains_key(word))
                }
                // Another value, one that is changed, a variable of a loop, or an import.
                _ if begins => None,
                (Some(Token::Sign('.' | '+' | ':')), _) => None,
                (Some(Token::Sign('=' | ',')), _) if depth == 0 => None,
                _ if depth == 0 && before == Some(&Token::Sign(',')) => None,
                _ if matches!(before, Some(Token::Word("for" | "as" | "import"))) => None,
                _ => continue,
            };
            named.insert(word, value);
        }
        named
    }

    /// What is between brackets, with them, if nothing follows in its line.
    fn bracket(&self, open: usize) -> Option<Tokens<'a, 't>> {
        let close = *self.closings.get(open)?;
        let is_whole = matches!(self.tokens.get(close.checked_add(1)?), None | Some(Token::End));
        self.tokens.get(open..=close).filter(|_| is_whole)
    }
}

#[cfg(test)]
mod tests {
    use crate::package_text;

    /// Reads a declaration of `a`, and returns its values; nothing if there may be others.
    fn values(text: &str) -> Option<Vec<String>> {
        let found = package_text::read(text);
        let values = &found.variants["a"];
        let mut all: Vec<String> = values.known.iter().cloned().collect();
        all.extend(values.is_switch.then(|| "on or off".to_owned()));
        (!values.is_open).then_some(all)
    }

    #[test]
    fn values_that_are_written_out_are_known() {
        for (text, expected) in [
            ("variant('a', default=True)", vec!["on or off"]),
            ("variant('a', False, 'about')", vec!["on or off"]),
            ("variant('a', default='x', values=('x', \"y\"), multi=True)", vec!["x", "y"]),
            ("variant('a', values=['1', 2,], when='@1:')", vec!["1", "2"]),
            ("variant('a', values=(True, False, 'x'))", vec!["x", "on or off"]),
            ("variant('a', values=('x', conditional('y', 'z', when='@2')))", vec!["x", "y", "z"]),
            ("variant('a', values=any_combination_of('x').with_error('e'))", vec!["none", "x"]),
            (
                "variant('a', values=spack.variant.disjoint_sets(('auto',), ('x', 'y'))\n\
                 .prohibit_empty_set().with_non_feature_values('auto'))",
                vec!["auto", "none", "x", "y"],
            ),
            ("class B(C):\n  all = (\n'x', 'y')\n  variant('a', values=all)", vec!["x", "y"]),
            ("b = ['x']\nvariant('a', values=any_combination_of(*b))", vec!["none", "x"]),
            ("variant('a', values=('x',))\nvariant('a', values=('y',), when='@2')", vec!["x", "y"]),
        ] {
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(values(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn values_that_are_computed_are_open() {
        for text in [
            "variant('a', default='x')",
            "variant('a', default=sys.platform != 'win32')",
            "variant('a', values=int)",
            "variant('a', values='x')",
            "variant('a', values=lambda x: True)",
            "variant('a', values=('x',) + others)",
            "variant('a', values=('x', f'{y}'))",
            "variant('a', values=('x', name))",
            "variant('a', values=[str(x) for x in range(3)])",
            "variant('a', values=any_combination_of(*Other.values))",
            "variant('a', values=any_combination_of('x').with_more('y'))",
            "variant('a', values=function('x'))",
            "variant('a', 'x', 'about', ('x', 'y'))",
            "variant('a', default='x', **more)",
            "variant('a', values=b)",
            "b = ('x',)\nb += ('y',)\nvariant('a', values=b)",
            "b = ['x']\nb.append('y')\nvariant('a', values=b)",
            "b = ('x',)\nb = ('y',)\nvariant('a', values=b)",
            "b = ('x',) + c\nvariant('a', values=b)",
            "with c: b = ('x',)\nb = ('y',)\nvariant('a', values=b)",
            "c, b = d\nb = ('y',)\nvariant('a', values=b)",
            "b = (b)\nvariant('a', values=b)",
            "b = ('x',)\nfor b in c:\n  variant('a', values=b)",
            "variant('a', values=('x',))\nvariant('a', values=int, when='@2')",
        ] {
            assert_eq!(values(text), None, "{text}");
        }
    }

    #[test]
    fn a_large_file_of_values_is_read() {
        let deep = format!("variant('a', values={}", "conditional(".repeat(1 << 18));
        package_text::read(&deep);
        let wide = format!("variant('a', values=({}))", "'x',".repeat(1 << 18));
        assert_eq!(values(&wide), Some(vec!["x".to_owned()]));
        // With the product of both as time, it would take hours.
        let list = "'x',".repeat(1 << 17);
        let many = "variant('a', values=b)\n".repeat(1 << 16);
        assert_eq!(values(&format!("b = ({list})\n{many}")), None);
    }
}
