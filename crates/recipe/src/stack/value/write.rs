// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From a value to the text of a YAML file.
//!
//! Texts stand without quotes only where no reader of YAML 1.1 or 1.2 could take
//! them for something else.

use std::fmt;

use super::Yaml;

impl fmt::Display for Yaml {
    /// Writes a whole file; it ends with a new line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_block(self) { block(f, self, 0) } else { inline(f, self) }
    }
}

/// Tells whether a value has lines of its own.
fn is_block(value: &Yaml) -> bool {
    match value {
        Yaml::Map(map) => !map.is_empty(),
        Yaml::List(items) => !items.is_empty(),
        _ => false,
    }
}

/// Writes a map or a list that has something in it, each entry in its lines.
fn block(f: &mut fmt::Formatter<'_>, value: &Yaml, indent: usize) -> fmt::Result {
    match value {
        Yaml::Map(map) => map.iter().try_for_each(|(key, value)| {
            write!(f, "{:indent$}", "")?;
            entry(f, key, value, indent)
        }),
        Yaml::List(items) => items.iter().try_for_each(|item| {
            write!(f, "{:indent$}- ", "")?;
            below_hyphen(f, item, indent + 2)
        }),
        _ => Ok(()),
    }
}

fn entry(f: &mut fmt::Formatter<'_>, key: &str, value: &Yaml, indent: usize) -> fmt::Result {
    text(f, key)?;
    f.write_str(":")?;
    if !is_block(value) {
        f.write_str(" ")?;
        return inline(f, value);
    }
    f.write_str("\n")?;
    block(f, value, if value.as_map().is_some() { indent + 2 } else { indent })
}

/// Returns a block as text.
fn lines(value: &Yaml, indent: usize) -> String {
    struct Block<'a>(&'a Yaml, usize);
    impl fmt::Display for Block<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            block(f, self.0, self.1)
        }
    }
    Block(value, indent).to_string()
}

fn below_hyphen(f: &mut fmt::Formatter<'_>, item: &Yaml, indent: usize) -> fmt::Result {
    if is_block(item) { f.write_str(lines(item, indent).trim_start()) } else { inline(f, item) }
}

/// Writes the rest of a line.
fn inline(f: &mut fmt::Formatter<'_>, value: &Yaml) -> fmt::Result {
    match value {
        Yaml::Null => f.write_str("null"),
        Yaml::Bool(value) => write!(f, "{value}"),
        Yaml::Number(number) => f.write_str(number),
        Yaml::Text(value) => text(f, value),
        Yaml::List(_) => f.write_str("[]"),
        Yaml::Map(_) => f.write_str("{}"),
    }?;
    f.write_str("\n")
}

fn text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    if is_plain(text) {
        return f.write_str(text);
    }
    let needs_escapes =
        |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}');
    if !text.contains(needs_escapes) {
        return write!(f, "'{}'", text.replace('\'', "''"));
    }
    f.write_str("\"")?;
    for character in text.chars() {
        match character {
            '"' | '\\' => write!(f, "\\{character}")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            '\r' => f.write_str("\\r")?,
            c if needs_escapes(c) => write!(f, "\\u{:04x}", u32::from(c))?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

/// Tells whether a text can stand without quotes.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_start = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '/');
    let is_inner = |c: char| c.is_ascii_alphanumeric() || " _/.-+~=@,:^".contains(c);
    text.starts_with(is_start)
        && text.chars().all(is_inner)
        && !text.contains(": ")
        && !text.ends_with([' ', ':'])
        && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::super::YamlMap;
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    fn read(text: &str) -> Yaml {
        Yaml::parse(Path::new("f"), text.as_bytes()).unwrap_or_else(|e| panic!("{text}\n{e}"))
    }

    #[test]
    fn a_file_is_written_in_blocks() {
        let value = read("{a: {b: [x, {c: 1, d: [2]}, []], e: {}}, f: 'yes', g: 3.10, h: }");
        assert_eq!(
            value.to_string(),
            "a:\n  b:\n  - x\n  - c: 1\n    d:\n    - 2\n  - []\n  e: {}\nf: 'yes'\ng: 3.10\nh: null\n"
        );
    }

    #[test]
    fn a_list_in_a_list_is_indented() {
        assert_eq!(read("[[a, [b]], c]").to_string(), "- - a\n  - - b\n- c\n");
    }

    #[test]
    fn a_text_that_could_be_something_else_has_quotes() {
        let texts = ["on", "1.2", "+mpi", "a: b", "#c", "", "it's", "null", "12:30", "a\nb"];
        let written: Vec<String> = texts.map(|text| Yaml::from(text).to_string()).to_vec();
        assert_eq!(
            written.concat(),
            "'on'\n'1.2'\n'+mpi'\n'a: b'\n'#c'\n''\n'it''s'\n'null'\n'12:30'\n\"a\\nb\"\n"
        );
    }

    fn values() -> impl Strategy<Value = Yaml> {
        let leaf = prop_oneof![
            Just(Yaml::Null),
            any::<bool>().prop_map(Yaml::Bool),
            "-?[1-9][0-9]{0,3}(\\.[0-9]{1,2})?".prop_map(Yaml::Number),
            "[ -~]{0,12}".prop_map(Yaml::Text),
            "[\\PC\n\t]{0,8}".prop_map(Yaml::Text),
            "(yes|no|~|null|True|0x1f|1_000|-|:|#|\\.inf|1e3|=|<<|%a|@a|a:|- a|\\? a)"
                .prop_map(Yaml::Text),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Yaml::List),
                prop::collection::vec(("[ -~]{1,8}", inner), 0..5).prop_map(|entries| {
                    let entries = entries.iter().map(|(k, v)| (k.as_str(), v.clone()));
                    Yaml::Map(entries.collect::<YamlMap>())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(value in values()) {
            prop_assert_eq!(read(&value.to_string()), value);
        }

        #[test]
        fn overlays_may_be_made_in_any_grouping(
            a in prop::collection::vec(("[a-d]", 0u32..9), 0..5),
            b in prop::collection::vec(("[a-d]", 0u32..9), 0..5),
            c in prop::collection::vec(("[a-d]", 0u32..9), 0..5),
        ) {
            let [a, b, c] = [a, b, c].map(|entries| {
                let entries = entries.iter().map(|(k, v)| (k.as_str(), Yaml::from(*v)));
                entries.collect::<YamlMap>()
            });
            let left = a.clone().overlaid(&b).overlaid(&c);
            prop_assert_eq!(left, a.overlaid(&b.overlaid(&c)));
        }

        #[test]
        fn an_overlay_of_a_map_with_itself_changes_nothing(
            a in prop::collection::vec(("[a-d]", 0u32..9), 0..5),
        ) {
            let map: YamlMap = a.iter().map(|(k, v)| (k.as_str(), Yaml::from(*v))).collect();
            prop_assert_eq!(map.clone().overlaid(&map), map);
        }
    }
}
