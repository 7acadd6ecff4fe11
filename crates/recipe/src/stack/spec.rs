// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Specs of Spack, checked by their syntax.
//!
//! Whether a package, a version or a variant exists is for Spack to find out.
//! What is found here is what Spack would refuse to read, with its place, and
//! the compilers that a spec asks for.

use std::ops::Range;

use crate::diagnostic::quote;
use crate::report::Problem;

/// What was found in a spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpecParts {
    /// The package, if one is named before anything else.
    pub(crate) package: Option<String>,
    /// What follows `%` and may be a compiler.
    pub(crate) built_with: Vec<BuiltWith>,
    /// The package, and those behind `^` and `%`, in their order.
    pub(crate) nodes: Vec<SpecNode>,
}

/// A package of a spec and what is asked of it, as bytes of the spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpecNode {
    /// The name; none if the spec names no package, or one by its hash.
    pub(crate) name: Option<Range<usize>>,
    /// Whether it follows `%`.
    pub(crate) is_direct: bool,
    /// What follows `@`.
    pub(crate) version: Option<Range<usize>>,
    /// Variants and other keys, without those for packages below.
    pub(crate) variants: Vec<SpecVariant>,
}

/// A variant of a spec, or another key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpecVariant {
    /// The bytes of its name.
    pub(crate) name: Range<usize>,
    /// The bytes of what follows `=`, without quotes.
    pub(crate) value: Option<Range<usize>>,
}

impl SpecVariant {
    /// One without a value: `+mpi`.
    fn named(name: Range<usize>) -> Self {
        Self { name, value: None }
    }
}

/// A package behind `%`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BuiltWith {
    pub(crate) name: String,
    /// The bytes of the name.
    pub(crate) place: Range<usize>,
    /// Whether the spec names it as a compiler: `%cxx=llvm`.
    pub(crate) is_compiler: bool,
}

/// Returns the package of a spec: `hdf5` of `hdf5@1.14 +mpi`.
#[must_use]
pub fn package_name(spec: &str) -> &str {
    let spec = spec.trim_start();
    &spec[..name_length(spec)]
}

/// Reads a spec.
pub(crate) fn read(text: &str) -> Result<SpecParts, Problem> {
    let mut reader = Reader { text, at: 0 };
    let mut parts = SpecParts::default();
    let mut has_something = false;
    while let Some(character) = reader.peek() {
        let start = reader.at;
        match character {
            c if c.is_whitespace() => {
                reader.skip(1);
                continue;
            }
            '@' => {
                let version = reader.version()?;
                parts.last().version.get_or_insert(version);
            }
            '+' | '~' => {
                let variant = reader.variant()?.map(SpecVariant::named);
                parts.last().variants.extend(variant);
            }
            '-' if has_something || reader.is_anonymous_variant() => {
                let variant = reader.variant()?.map(SpecVariant::named);
                parts.last().variants.extend(variant);
            }
            '^' | '%' => {
                let (name, compiler) = reader.dependency()?;
                let is_direct = character == '%';
                if is_direct {
                    parts.built_with.extend(compiler);
                }
                parts.nodes.push(SpecNode { name, is_direct, ..SpecNode::default() });
            }
            '/' => reader.hash()?,
            '[' => return Err(Problem::new(start..start + 1, "`[` belongs behind `^` or `%`")),
            c if is_name_start(c) => match reader.word() {
                Word::KeyAndValue(key) => {
                    let value = Some(reader.value()?);
                    let variant = key.map(|name| SpecVariant { name, value });
                    parts.last().variants.extend(variant);
                }
                Word::Name(name) if !has_something => {
                    parts.package = Some(name.to_owned());
                    parts.last().name = Some(start..reader.at);
                }
                Word::Name(name) => {
                    let message =
                        format!("a spec names one package, but {} is another", quote(name));
                    return Err(Problem::new(start..reader.at, message).hint(
                        "write each package into a line of its own, and what it needs behind `^`",
                    ));
                }
            },
            c => {
                let message = format!("{} means nothing in a spec", quote(&c.to_string()));
                return Err(Problem::new(start..start + c.len_utf8(), message));
            }
        }
        has_something = true;
    }
    if has_something {
        return Ok(parts);
    }
    Err(Problem::new(0..text.len(), "this spec is empty"))
}

impl SpecParts {
    /// The package that what comes next belongs to.
    fn last(&mut self) -> &mut SpecNode {
        if self.nodes.is_empty() {
            self.nodes.push(SpecNode::default());
        }
        let last = self.nodes.len() - 1;
        &mut self.nodes[last]
    }
}

enum Word<'t> {
    Name(&'t str),
    /// A name with `=`, of which the value comes next; its bytes if it is of one package.
    KeyAndValue(Option<Range<usize>>),
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Skips characters.
    fn skip(&mut self, count: usize) {
        let length: usize = self.rest().chars().take(count).map(char::len_utf8).sum();
        self.at += length;
    }

    /// Takes everything up to a character that does not belong.
    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let length = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// `@1.2:1.4,2`, `@=1.2`, `@git.main=1.2`.
    fn version(&mut self) -> Result<Range<usize>, Problem> {
        let start = self.at;
        self.skip(1);
        let is_version = |c: char| c.is_ascii_alphanumeric() || "._-:,=/+".contains(c);
        // `+` begins a variant unless a reference of Git has it.
        let is_git = self.rest().starts_with("git.");
        let version = self.take_while(|c| is_version(c) && (c != '+' || is_git));
        if version.is_empty() {
            let message = "a version is expected after `@`";
            return Err(Problem::new(start..start + 1, message));
        }
        Ok(start + 1..self.at)
    }

    /// Tells whether a variant begins here that is switched off with a hyphen.
    fn is_anonymous_variant(&self) -> bool {
        self.rest()[1..].starts_with(is_name_start)
    }

    /// `+mpi`, `~mpi`, and, for all packages below that have it, `++mpi` and `~~mpi`.
    /// Returns the bytes of the name unless it is of the latter.
    fn variant(&mut self) -> Result<Option<Range<usize>>, Problem> {
        let (start, sign) = (self.at, self.peek());
        self.skip(1);
        let is_propagated = self.peek() == sign;
        if is_propagated {
            self.skip(1);
        }
        // Spack allows it, and recipes have it: `gcc + bootstrap`.
        self.take_while(|c| c == ' ');
        let name_start = self.at;
        if self.take_while(is_name_character).is_empty() {
            let sign = &self.text[start..=start];
            let message = format!("the name of a variant is expected after `{sign}`");
            return Err(Problem::new(start..start + 1, message));
        }
        Ok((!is_propagated).then_some(name_start..self.at))
    }

    /// `^name`, `%name`, `%%name`, `%c,cxx=name`, `%[when=%c] c=name`.
    ///
    /// Returns the bytes of the name, and the name if it may be a compiler: not of
    /// `%libllvm=llvm`.
    fn dependency(&mut self) -> Result<(Option<Range<usize>>, Option<BuiltWith>), Problem> {
        let start = self.at;
        let sign = self.peek().unwrap_or('%');
        self.skip(1);
        if self.peek() == Some(sign) {
            self.skip(1);
        }
        self.take_while(char::is_whitespace);
        if self.peek() == Some('[') {
            self.brackets()?;
            self.take_while(char::is_whitespace);
        }
        let virtuals = self.take_while(|c| is_name_character(c) || c == ',');
        let has_virtuals = self.peek() == Some('=') && !virtuals.is_empty();
        if has_virtuals {
            self.skip(1);
        } else {
            self.at -= virtuals.len();
        }
        let name_start = self.at;
        let is_hash = self.peek() == Some('/');
        if is_hash {
            self.hash()?;
        } else if self.take_while(is_name_character).is_empty() {
            let message = format!("the name of a package is expected after `{sign}`");
            return Err(Problem::new(start..start + 1, message));
        }
        let is_language = |word: &str| matches!(word, "c" | "cxx" | "fortran");
        let is_compiler = has_virtuals && virtuals.split(',').any(is_language);
        let place = name_start..self.at;
        let built_with = (is_compiler || !has_virtuals).then(|| BuiltWith {
            name: self.text[place.clone()].to_owned(),
            place: place.clone(),
            is_compiler,
        });
        Ok(((!is_hash).then_some(place), built_with))
    }

    fn brackets(&mut self) -> Result<(), Problem> {
        let start = self.at;
        let mut quoted = None;
        while let Some(character) = self.peek() {
            self.skip(1);
            match (quoted, character) {
                (None, ']') => return Ok(()),
                (None, '\'' | '"') => quoted = Some(character),
                (Some(quote), c) if c == quote => quoted = None,
                _ => {}
            }
        }
        Err(Problem::new(start..start + 1, "this `[` is never closed"))
    }

    fn hash(&mut self) -> Result<(), Problem> {
        let start = self.at;
        self.skip(1);
        if self.take_while(|c| c.is_ascii_alphanumeric()).is_empty() {
            return Err(Problem::new(start..start + 1, "a hash is expected after `/`"));
        }
        Ok(())
    }

    /// A name, or the key of `key=value`, `key:=value`, `key==value`.
    fn word(&mut self) -> Word<'t> {
        let start = self.at;
        let word = self.take_while(is_name_character);
        let place = start..self.at;
        for sign in [":==", "==", ":=", "="] {
            if self.rest().starts_with(sign) {
                self.at += sign.len();
                // What has two signs holds for all packages below that know it.
                return Word::KeyAndValue(Some(place).filter(|_| !sign.ends_with("==")));
            }
        }
        Word::Name(word)
    }

    /// What follows `=`. Returns its bytes without quotes.
    fn value(&mut self) -> Result<Range<usize>, Problem> {
        let start = self.at;
        if let Some(mark @ ('"' | '\'')) = self.peek() {
            self.skip(1);
            self.take_while(|c| c != mark);
            if self.peek() != Some(mark) {
                return Err(Problem::new(start..start + 1, "this quote is never closed"));
            }
            let value = start + 1..self.at;
            self.skip(1);
            return Ok(value);
        }
        let value = self.take_while(|c| !c.is_whitespace() && !matches!(c, '"' | '\''));
        if value.is_empty() {
            let sign = start.saturating_sub(1)..start;
            return Err(Problem::new(sign, "a value is expected after `=`"));
        }
        Ok(start..self.at)
    }
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// The length of the name of a package, without what a version follows.
fn name_length(spec: &str) -> usize {
    spec.find(|c| !is_name_character(c)).unwrap_or(spec.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_specs_of_real_recipes_are_read() {
        let specs = [
            "hdf5+cxx+hl+fortran",
            "kokkos +aggressive_vectorization ~alloc_async cuda_arch=90 cxxstd=17",
            "cray-mpich@9.1.0+cuda %c,cxx,fortran=nvhpc",
            "cuda@13.1.1 ^libxml2 %c=gcc",
            "libfabric@2.2: fabrics=lnx,shm,xpmem",
            "gcc@14.2 + bootstrap",
            "conduit@git.df1394ba=0.9.6",
            "py-torch@2.8.0:2.9 ~mpi cuda_arch=90a %[virtuals=c,cxx] gcc@13",
            "%[when=%c] c=gcc@14 %[when=%cxx] cxx=gcc@14",
            "zlib cflags=\"-O3 -g\" /abcdef",
            "builtin.zlib@=1.3.1 target=x86_64_v3:",
            "arbor ~python -mpi",
            "xz ldflags=-L/opt/lib^zlib",
        ];
        for spec in specs {
            assert!(read(spec).is_ok(), "{spec}: {:?}", read(spec));
        }
    }

    #[test]
    fn the_compilers_of_a_spec_are_found() {
        let text = "hdf5 %c,cxx=gcc@13 ^zlib%nvhpc %libllvm=llvm %[when=%c] fortran=llvm";
        let parts = read(text).unwrap();
        let names: Vec<&str> = parts.built_with.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["gcc", "nvhpc", "llvm"]);
    }

    #[test]
    fn what_spack_would_not_read_is_reported_with_its_place() {
        let specs = [
            "hdf5@ +mpi",
            "hdf5 +",
            "hdf5 zlib",
            "hdf5 %",
            "hdf5 a=",
            "hdf5 ^[x=y",
            "hdf5 a='b",
            "",
            "hdf5 {a}",
            "zlib /",
            "[a]",
        ];
        let names: Vec<String> = specs
            .iter()
            .map(|spec| {
                let problem = read(spec).unwrap_err();
                format!("{} {}", problem.place.start, problem.message)
            })
            .collect();
        assert_eq!(
            names,
            [
                "4 a version is expected after `@`",
                "5 the name of a variant is expected after `+`",
                "5 a spec names one package, but `zlib` is another",
                "5 the name of a package is expected after `%`",
                "6 a value is expected after `=`",
                "6 this `[` is never closed",
                "7 this quote is never closed",
                "0 this spec is empty",
                "5 `{` means nothing in a spec",
                "5 a hash is expected after `/`",
                "0 `[` belongs behind `^` or `%`",
            ]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_a_spec_or_has_a_place_that_is_wrong(text in "[\\PC]{0,30}") {
            if let Err(problem) = read(&text) {
                prop_assert!(text.get(Range::from(problem.place)).is_some());
            }
        }

        #[test]
        fn any_text_of_signs_is_a_spec_or_has_a_place_that_is_wrong(text in "[a-c@+~%^=,/\\[\\]'\" :-]{0,20}") {
            if let Err(problem) = read(&text) {
                prop_assert!(text.get(Range::from(problem.place)).is_some());
            }
        }
    }
}
