// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the text of a package recipe declares.
//!
//! Package recipes are programs. They are read, not run: a declaration whose name is
//! computed makes the list of such names open, and nothing is said about what is not in it.

use std::collections::{BTreeMap, BTreeSet};

use crate::python::{Token, tokens};
use crate::variant_values::{self, Assignments, Values};

/// What one file declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PackageText {
    /// The versions, and whether each is deprecated.
    pub(crate) versions: BTreeMap<String, bool>,
    /// Whether there may be others.
    pub(crate) has_other_versions: bool,
    /// The variants, and the values that each can have.
    pub(crate) variants: BTreeMap<String, Values>,
    /// Whether there may be others.
    pub(crate) has_other_variants: bool,
    /// The virtual packages that it provides.
    pub(crate) provides: BTreeSet<String>,
    /// Modules and what is taken from them; nothing for a module as a whole.
    pub(crate) imports: Vec<(String, Vec<String>)>,
    /// Whether a class has a base that is neither imported nor defined here.
    pub(crate) has_unknown_base: bool,
}

/// Bases that have no declarations.
const KNOWN_BASES: [&str; 5] = ["PackageBase", "object", "Exception", "Enum", "NamedTuple"];

/// Reads a file.
pub(crate) fn read(text: &str) -> PackageText {
    let tokens = tokens(text);
    let closings = closings(&tokens);
    // The arguments of a call, from its bracket on. Without an end they are not known.
    let arguments_at = |bracket: usize| {
        let end = *closings.get(bracket)?;
        Some(arguments(tokens.get(bracket + 1..end)?))
    };
    // A declaration inside of another one of its kind is none. Without this, the time would grow
    // with the square of the depth.
    let mut ends = BTreeMap::new();
    let mut found = PackageText::default();
    let mut classes = BTreeSet::new();
    let mut bases = Vec::new();
    let assignments = Assignments::new(&tokens, &closings);
    for at in 0..tokens.len() {
        let Token::Word(word) = tokens[at] else { continue };
        let before = at.checked_sub(1).map(|before| &tokens[before]);
        let begins = matches!(before, None | Some(Token::End));
        match word {
            "from" | "import" if begins => found.imports.extend(import(&tokens[at..])),
            "class" if begins => {
                if let Some(Token::Word(name)) = tokens.get(at + 1) {
                    classes.insert(*name);
                    let all = arguments_at(at + 2).unwrap_or_default();
                    bases.extend(all.into_iter().filter_map(base));
                }
            }
            _ if tokens.get(at + 1) != Some(&Token::Sign('('))
                || matches!(before, Some(Token::Sign('.') | Token::Word("def" | "class"))) => {}
            "version" | "variant" | "provides" if ends.get(word).is_none_or(|end| *end < at) => {
                ends.insert(word, closings[at + 1]);
                let all = arguments_at(at + 1);
                match word {
                    "version" => version(&mut found, all.as_deref()),
                    "variant" => variant(&mut found, all.as_deref(), &assignments),
                    _ => {
                        let texts = all.into_iter().flatten().filter_map(literal);
                        found.provides.extend(texts.map(|spec| name_of(spec).to_owned()));
                    }
                }
            }
            _ => {}
        }
    }
    let imported = found.imports.iter().flat_map(|(module, names)| {
        let last = module.rsplit('.').next();
        names.iter().map(String::as_str).chain(last)
    });
    let imported: BTreeSet<&str> = imported.collect();
    found.has_unknown_base = bases.iter().any(|base| {
        !classes.contains(base) && !imported.contains(base) && !KNOWN_BASES.contains(base)
    });
    found
}

/// The name at the beginning of a spec.
fn name_of(spec: &str) -> &str {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    spec.split(|c| !is_name(c)).next().unwrap_or_default()
}

pub(crate) type Tokens<'a, 't> = &'a [Token<'t>];

/// Returns for each opening bracket where its closing one is, and `usize::MAX` for all others.
fn closings(tokens: Tokens<'_, '_>) -> Vec<usize> {
    let mut closings = vec![usize::MAX; tokens.len()];
    let mut open = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign('(' | '[' | '{') => open.push(at),
            Token::Sign(')' | ']' | '}') => {
                if let Some(begin) = open.pop() {
                    closings[begin] = at;
                }
            }
            _ => {}
        }
    }
    closings
}

/// Splits the arguments between the brackets of a call.
pub(crate) fn arguments<'a, 't>(tokens: Tokens<'a, 't>) -> Vec<Tokens<'a, 't>> {
    let mut depth = 0_usize;
    let all = tokens.split(|token| {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && *token == Token::Sign(',')
    });
    all.filter(|argument| !argument.is_empty()).collect()
}

/// The value of an argument that is one text.
pub(crate) fn literal<'t>(argument: Tokens<'_, 't>) -> Option<&'t str> {
    match argument {
        [Token::Text(Some(text))] if !text.contains('\\') => Some(text),
        _ => None,
    }
}

/// The value of an argument with a name.
pub(crate) fn named<'a, 't>(arguments: &[Tokens<'a, 't>], name: &str) -> Option<Tokens<'a, 't>> {
    arguments.iter().find_map(|argument| match argument {
        [Token::Word(word), Token::Sign('='), value @ ..] if *word == name => Some(value),
        _ => None,
    })
}

/// The name that a declaration begins with.
fn first<'t>(arguments: &[Tokens<'_, 't>], name: &str) -> Option<&'t str> {
    let argument = named(arguments, name).or_else(|| arguments.first().copied())?;
    literal(argument)
}

fn version(found: &mut PackageText, arguments: Option<&[Tokens<'_, '_>]>) {
    let arguments = arguments.unwrap_or_default();
    let Some(name) = first(arguments, "ver") else {
        found.has_other_versions = true;
        return;
    };
    let is_deprecated = matches!(named(arguments, "deprecated"), Some([Token::Word("True")]));
    // The same one may be declared for several platforms.
    let known = found.versions.entry(name.to_owned()).or_insert(is_deprecated);
    *known = *known && is_deprecated;
}

fn variant(
    found: &mut PackageText,
    arguments: Option<&[Tokens<'_, '_>]>,
    assignments: &Assignments<'_, '_>,
) {
    let arguments = arguments.unwrap_or_default();
    let Some(name) = first(arguments, "name") else {
        found.has_other_variants = true;
        return;
    };
    let values = variant_values::of(arguments, assignments);
    // One may be declared for several versions.
    found.variants.entry(name.to_owned()).or_default().add(values);
}

/// Reads `from module import some, others as names` and `import module`.
fn import(tokens: Tokens<'_, '_>) -> Vec<(String, Vec<String>)> {
    let line = tokens.iter().position(|token| *token == Token::End).unwrap_or(tokens.len());
    let mut line = tokens[..line].iter().skip(1);
    let mut module = String::new();
    let mut names = Vec::new();
    if tokens[0] == Token::Word("from") {
        for token in line.by_ref() {
            match token {
                Token::Word("import") => break,
                Token::Word(word) => module.push_str(word),
                Token::Sign(sign) => module.push(*sign),
                _ => {}
            }
        }
        // With `as`, both names are taken.
        let words = line.filter_map(|token| match token {
            Token::Word("as") => None,
            Token::Word(word) => Some((*word).to_owned()),
            _ => None,
        });
        names.extend(words);
        return vec![(module, names)];
    }
    let mut all: Vec<String> = Vec::new();
    for token in line {
        match token {
            Token::Sign(',') => all.push(std::mem::take(&mut module)),
            Token::Word("as") => module.push(' '),
            Token::Word(word) => module.push_str(word),
            Token::Sign(sign) => module.push(*sign),
            _ => {}
        }
    }
    all.push(module);
    let all = all.into_iter().map(|module| match module.split_once(' ') {
        Some((module, alias)) => (module.to_owned(), vec![alias.to_owned()]),
        None => (module, Vec::new()),
    });
    all.collect()
}

/// Reads the name of a base, or of its module: `module.Base` is known if its module is.
fn base<'t>(argument: Tokens<'_, 't>) -> Option<&'t str> {
    match argument {
        [Token::Word(_), Token::Sign('='), ..] => None,
        [Token::Word(word), ..] => Some(*word),
        _ => Some(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_of_brackets_that_nest_or_never_close_is_read() {
        // With the square of its size as time, each would take hours.
        read(&"version(".repeat(1 << 19));
        let count = 1 << 17;
        for word in ["version(", "variant(", "provides(", "class x("] {
            let open = word.repeat(count);
            read(&open);
            read(&(open + &")".repeat(count)));
        }
        let mixed = "version(variant([provides({".repeat(count / 4);
        assert!(read(&mixed).has_other_versions);
        assert!(read(&(mixed + &"})])".repeat(count / 4))).has_other_variants);
        assert!(read(&"class x(\n".repeat(count)).versions.is_empty());
    }

    #[test]
    fn declarations_are_found_in_loops_and_behind_others() {
        let text = "class A(B, metaclass=C):\n for v in [1]:\n  version('1', sha256=x(1, [2]))\n \
                    version('2')\n variant('a', default={})\n provides('mpi@3', 'c')\n";
        let found = read(text);
        assert_eq!(found.versions.keys().collect::<Vec<_>>(), ["1", "2"]);
        assert!(!found.has_other_versions && !found.has_other_variants && found.has_unknown_base);
        assert_eq!(found.variants.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(found.provides.iter().collect::<Vec<_>>(), ["c", "mpi"]);
    }
}
