// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the text of a package recipe declares.
//!
//! Package recipes are programs. They are read, not run: a declaration whose name is
//! computed makes the list of such names open, and nothing is said about what is not in it.

use std::collections::{BTreeMap, BTreeSet};

use crate::python::{Token, tokens};

/// What one file declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PackageText {
    /// The versions, and whether each is deprecated.
    pub(crate) versions: BTreeMap<String, bool>,
    /// Whether there may be others.
    pub(crate) has_other_versions: bool,
    pub(crate) variants: BTreeSet<String>,
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
    let mut found = PackageText::default();
    let mut classes = BTreeSet::new();
    let mut bases = Vec::new();
    for at in 0..tokens.len() {
        let Token::Word(word) = tokens[at] else { continue };
        let before = at.checked_sub(1).map(|before| &tokens[before]);
        let begins = matches!(before, None | Some(Token::End));
        match word {
            "from" | "import" if begins => found.imports.extend(import(&tokens[at..])),
            "class" if begins => {
                let (name, some) = class(&tokens[at + 1..]);
                classes.extend(name);
                bases.extend(some);
            }
            _ if tokens.get(at + 1) != Some(&Token::Sign('('))
                || matches!(before, Some(Token::Sign('.') | Token::Word("def" | "class"))) => {}
            "version" => version(&mut found, &arguments(&tokens[at + 2..])),
            "variant" => variant(&mut found, &arguments(&tokens[at + 2..])),
            "provides" => {
                let all = arguments(&tokens[at + 2..]).into_iter();
                let texts = all.filter_map(literal);
                found.provides.extend(texts.map(|spec| name_of(spec).to_owned()));
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

type Tokens<'a, 't> = &'a [Token<'t>];

/// Splits the arguments of a call, from behind its bracket.
fn arguments<'a, 't>(tokens: Tokens<'a, 't>) -> Vec<Tokens<'a, 't>> {
    let (mut depth, mut start) = (0_usize, 0);
    let mut all = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']' | '}') if depth == 0 => {
                all.push(&tokens[start..at]);
                break;
            }
            Token::Sign(')' | ']' | '}') => depth -= 1,
            Token::Sign(',') if depth == 0 => {
                all.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    all.retain(|argument| !argument.is_empty());
    all
}

/// The value of an argument that is one text.
fn literal<'t>(argument: Tokens<'_, 't>) -> Option<&'t str> {
    match argument {
        [Token::Text(Some(text))] if !text.contains('\\') => Some(text),
        _ => None,
    }
}

/// The value of an argument with a name.
fn named<'a, 't>(arguments: &[Tokens<'a, 't>], name: &str) -> Option<Tokens<'a, 't>> {
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

fn version(found: &mut PackageText, arguments: &[Tokens<'_, '_>]) {
    let Some(name) = first(arguments, "ver") else {
        found.has_other_versions = true;
        return;
    };
    let is_deprecated = matches!(named(arguments, "deprecated"), Some([Token::Word("True")]));
    // The same one may be declared for several platforms.
    let known = found.versions.entry(name.to_owned()).or_insert(is_deprecated);
    *known = *known && is_deprecated;
}

fn variant(found: &mut PackageText, arguments: &[Tokens<'_, '_>]) {
    match first(arguments, "name") {
        Some(name) => drop(found.variants.insert(name.to_owned())),
        None => found.has_other_variants = true,
    }
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

/// Reads the name of a class and those of its bases, from behind `class`.
fn class<'t>(tokens: Tokens<'_, 't>) -> (Option<&'t str>, Vec<&'t str>) {
    let [Token::Word(name), rest @ ..] = tokens else {
        return (None, Vec::new());
    };
    let [Token::Sign('('), rest @ ..] = rest else {
        return (Some(name), Vec::new());
    };
    // `module.Base` is known if its module is.
    let base = |argument: Tokens<'_, 't>| match argument {
        [Token::Word(_), Token::Sign('='), ..] => None,
        [Token::Word(word), ..] => Some(*word),
        _ => Some(""),
    };
    (Some(name), arguments(rest).into_iter().filter_map(base).collect())
}
