// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Schemas for editors, made from the tables of keys that the parser has.
//!
//! A schema says which keys there are and what they hold; what one file says about
//! another is for the parser alone.

use super::keys::{self, Key, Shape};
use super::value::{Yaml, YamlMap};
use super::vendor::keys as vendor_keys;

/// A file of a recipe for Spack, or of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackFile {
    /// `config.yaml`.
    Config,
    /// `compilers.yaml`.
    Compilers,
    /// `environments.yaml`.
    Environments,
    /// `modules.yaml`.
    Modules,
    /// `packages.yaml`.
    Packages,
    /// `network.yaml` of a system.
    Network,
    /// `repos.yaml` of a system.
    Repos,
    /// `mirrors.yaml`.
    Mirrors,
    /// The manifest of `cabane vendor-mpi`.
    VendorMpi,
}

impl StackFile {
    /// All files.
    pub const ALL: [Self; 9] = [
        Self::Config,
        Self::Compilers,
        Self::Environments,
        Self::Modules,
        Self::Packages,
        Self::Network,
        Self::Repos,
        Self::Mirrors,
        Self::VendorMpi,
    ];

    /// Returns its name without the ending.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.description().0
    }

    /// Returns its name, its keys, and what it is about.
    fn description(self) -> (&'static str, &'static [Key], &'static str) {
        match self {
            Self::Config => ("config", keys::CONFIG, "what is built, and by which Spack"),
            Self::Compilers => ("compilers", keys::COMPILERS, "the compilers of a recipe"),
            Self::Environments => {
                ("environments", keys::ENVIRONMENT, "the environments of a recipe")
            }
            Self::Modules => ("modules", keys::MODULES, "the module files of a recipe"),
            Self::Packages => ("packages", keys::PACKAGES, "what holds for packages"),
            Self::Network => ("network", keys::SYSTEM_NETWORK, "the network of a system"),
            Self::Repos => ("repos", keys::SYSTEM_REPOS, "the package repositories of a system"),
            Self::Mirrors => ("mirrors", keys::MIRRORS, "mirrors and caches"),
            Self::VendorMpi => {
                ("vendor-mpi", vendor_keys::MANIFEST, "the MPI of a vendor, as packages")
            }
        }
    }

    /// Returns a JSON schema (draft 7) of the file in format 3.
    #[must_use]
    pub fn schema(self) -> Yaml {
        let (name, keys, about) = self.description();
        let mut schema = YamlMap::new();
        schema.insert("$schema", "http://json-schema.org/draft-07/schema#");
        schema.insert("title", format!("{name}.yaml: {about}"));
        let shape = if self == Self::Environments { Shape::Named(keys) } else { Shape::Keys(keys) };
        let body = of_shape(shape, true);
        Yaml::Map(schema.overlaid(body.as_map().unwrap_or(&YamlMap::new())))
    }
}

fn of_key(key: &Key) -> Yaml {
    let mut schema = YamlMap::new();
    let about = match (key.is_required, key.default) {
        (true, _) | (_, "") => key.about.to_owned(),
        (false, default) => format!("{} (without it: {default})", key.about),
    };
    schema.insert("description", about);
    let body = of_shape(key.shape, key.is_required);
    Yaml::Map(schema.overlaid(body.as_map().unwrap_or(&YamlMap::new())))
}

/// What follows a key; one that need not be there may be empty as well.
fn of_shape(shape: Shape, is_required: bool) -> Yaml {
    let kind = |name: &str| {
        let names = if is_required { vec![name] } else { vec![name, "null"] };
        ("type", Yaml::texts(names))
    };
    match shape {
        Shape::Text => {
            let none = (!is_required).then_some("null");
            let words = ["string", "number", "boolean"].into_iter().chain(none);
            Yaml::map([("type", Yaml::texts(words))])
        }
        Shape::Truth => Yaml::map([("type", "boolean".into())]),
        Shape::Choice(words) => {
            let mut values: Vec<Yaml> = words.iter().map(|word| choice(word)).collect();
            if !is_required {
                values.push(Yaml::Null);
            }
            Yaml::map([("enum", values.into())])
        }
        Shape::Texts => Yaml::map([("type", Yaml::texts(["array", "null"])), ("items", text())]),
        Shape::Keys(keys) => keys_of(keys, kind("object")),
        Shape::Named(keys) => {
            let can_be_empty = keys.iter().all(|key| !key.is_required);
            let each = of_shape(Shape::Keys(keys), !can_be_empty);
            Yaml::map([kind("object"), ("additionalProperties", each)])
        }
        Shape::Items(keys) => {
            let each = of_shape(Shape::Keys(keys), true);
            Yaml::map([kind("array"), ("items", each)])
        }
        Shape::NamedItems(keys) => {
            let each = of_shape(Shape::Items(keys), true);
            Yaml::map([kind("object"), ("additionalProperties", each)])
        }
        Shape::TextOrTexts => {
            let either = vec![of_shape(Shape::Text, is_required), of_shape(Shape::Texts, true)];
            Yaml::map([("anyOf", either.into())])
        }
        Shape::NamedTexts => {
            let each = of_shape(Shape::Texts, false);
            Yaml::map([kind("object"), ("additionalProperties", each)])
        }
        Shape::NamedText => Yaml::map([kind("object"), ("additionalProperties", text())]),
        Shape::Variables(may_be_unset) => {
            let item = Yaml::map([
                ("type", "object".into()),
                ("minProperties", 1u32.into()),
                ("maxProperties", 1u32.into()),
                ("additionalProperties", of_shape(Shape::Text, !may_be_unset)),
            ]);
            Yaml::map([("type", Yaml::texts(["array", "null"])), ("items", item)])
        }
        Shape::TextOrKeys(keys) => {
            let either = vec![of_shape(Shape::Text, is_required), keys_of(keys, kind("object"))];
            Yaml::map([("anyOf", either.into())])
        }
        Shape::Packages => {
            let named = of_shape(Shape::Named(keys::PACKAGE_REPOSITORY), true);
            let one = of_shape(Shape::Keys(keys::PACKAGE_REPOSITORY), true);
            Yaml::map([("anyOf", vec![one, named].into())])
        }
        Shape::Anything => Yaml::map([]),
    }
}

fn text() -> Yaml {
    of_shape(Shape::Text, true)
}

fn choice(word: &str) -> Yaml {
    match word {
        "true" => true.into(),
        "false" => false.into(),
        "1" | "2" | "3" => Yaml::Number(word.to_owned()),
        _ => word.into(),
    }
}

fn keys_of(keys: &[Key], kind: (&str, Yaml)) -> Yaml {
    let properties: YamlMap = keys.iter().map(|key| (key.name, of_key(key))).collect();
    let required = keys.iter().filter(|key| key.is_required).map(|key| key.name);
    Yaml::map([
        kind,
        ("additionalProperties", false.into()),
        ("required", Yaml::texts(required)),
        ("properties", properties.into()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_names_every_key_with_its_default() {
        let schema = StackFile::Environments.schema();
        let unify = schema.at(&["additionalProperties", "properties", "unify"]);
        assert_eq!(
            unify.unwrap().to_json(),
            r#"{"description":"whether packages are the same for all specs (without it: true)","enum":[true,false,"when_possible",null]}"#
        );
    }

    #[test]
    fn the_keys_of_config_yaml_are_those_that_the_parser_takes() {
        let mut parser = crate::config::spack_keys();
        let mut schema = keys::names(keys::CONFIG);
        parser.sort_unstable();
        schema.sort_unstable();
        assert_eq!(schema, parser);
    }
}
