// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is written into an `env.json`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cabane_view::{
    Change, CheckList, Container, ContainerSource, EnvPatch, ImageBase, InterpreterNeed,
    LibraryNeed, ListOperation, Meta, MpiNeed, Needs, OutsideNeed, ProcessorNeed, View,
};

fn meta() -> Meta {
    let values = vec!["/user-environment/bin".to_owned()];
    let mut patch = EnvPatch::new();
    patch.push("PATH", Change::List { operation: ListOperation::Prepend, values });
    patch.push("B", Change::Set("x".to_owned()));
    patch.push("A", Change::Unset);
    let view = View { description: Some("all".to_owned()), patch, ..View::default() };
    let python = PathBuf::from("/usr/bin/python3.11");
    let interpreter = Some(InterpreterNeed { path: python, version: "3.11.2".to_owned() });
    Meta {
        name: "demo".to_owned(),
        description: None,
        mount: Some("/user-environment".parse().unwrap()),
        default_view: Some("default".parse().unwrap()),
        views: BTreeMap::from([("default".parse().unwrap(), view)]),
        needs: Needs { interpreter, ..Needs::default() },
        engine: Some("python".to_owned()),
        container: None,
        checks: CheckList::default(),
        bases: Vec::new(),
    }
}

/// What is read after a patch was written as the only view.
fn read_again(patch: EnvPatch) -> EnvPatch {
    let view = View { patch, ..View::default() };
    let views = BTreeMap::from([("default".parse().unwrap(), view)]);
    let meta = Meta { views, ..meta() };
    Meta::from_json(meta.to_json().as_bytes()).unwrap().views.remove("default").unwrap().patch
}

#[test]
fn keys_are_written_in_a_fixed_order() {
    let expected = r#"{
  "name": "demo",
  "mount": "/user-environment",
  "default-view": "default",
  "views": {
    "default": {
      "description": "all",
      "env": {
        "version": 1,
        "values": {
          "list": {
            "PATH": [
              {
                "op": "prepend",
                "value": [
                  "/user-environment/bin"
                ]
              }
            ]
          },
          "scalar": {
            "B": "x",
            "A": null
          }
        }
      }
    }
  },
  "cabane": {
    "version": 1,
    "engine": "python",
    "needs": {
      "interpreter": {
        "path": "/usr/bin/python3.11",
        "version": "3.11.2"
      }
    }
  }
}
"#;
    assert_eq!(meta().to_json(), expected);
}

#[test]
fn an_image_that_needs_nothing_does_not_say_so() {
    let meta = Meta { needs: Needs::default(), ..meta() };
    assert!(!meta.to_json().contains("needs"));
}

#[test]
fn what_a_later_change_makes_void_is_left_out() {
    let mut patch = EnvPatch::new();
    patch.push("A", Change::List { operation: ListOperation::Append, values: vec![] });
    patch.push("A", Change::Set("x".to_owned()));
    let mut expected = EnvPatch::new();
    expected.push("A", Change::Set("x".to_owned()));
    assert_eq!(read_again(patch), expected);
}

#[test]
fn a_change_to_a_list_comes_after_the_value_it_changes() {
    let mut patch = EnvPatch::new();
    patch.push("A", Change::Set("x".to_owned()));
    patch.push("A", Change::List { operation: ListOperation::Append, values: vec!["y".into()] });
    assert_eq!(read_again(patch.clone()), patch);
}

#[test]
fn what_an_image_needs_is_read_as_it_was_written() {
    let meta = Meta {
        needs: Needs {
            interpreter: None,
            glibc: Some("2.34".to_owned()),
            architectures: vec!["x86_64".to_owned()],
            processor: Some(ProcessorNeed {
                targets: vec!["x86_64_v3".to_owned()],
                features: vec!["avx2".to_owned()],
            }),
            mpi: Some(MpiNeed { srun: vec!["pmi2".to_owned()] }),
            libraries: vec![LibraryNeed {
                name: "libibverbs.so.1".to_owned(),
                versions: vec!["IBVERBS_1.1".to_owned()],
            }],
            search_paths: vec!["/opt/cray/lib64".to_owned()],
            outside: vec![OutsideNeed { path: "/usr/bin/gcc".into(), package: None }],
        },
        ..Meta::default()
    };
    let read = Meta::from_json(meta.to_json().as_bytes()).unwrap();
    assert_eq!(read.needs, meta.needs);
}

#[test]
fn what_a_root_image_says_about_itself_can_be_read_again() {
    let container = Container {
        entrypoint: vec!["/entry.sh".to_owned()],
        command: vec!["serve".to_owned(), String::new()],
        working_directory: Some("/data".to_owned()),
        user: Some("1000:1000".to_owned()),
        labels: BTreeMap::from([("a.b".to_owned(), "c".to_owned())]),
        glibc: Some("2.36".to_owned()),
        source: Some(ContainerSource {
            reference: "registry.example/tool:1".to_owned(),
            platform: "linux/amd64".to_owned(),
            manifest: Some("sha256:0".to_owned()),
            index: None,
            configuration: Some("sha256:1".to_owned()),
        }),
    };
    let meta = Meta { mount: Some("/".parse().unwrap()), container: Some(container), ..meta() };
    let read = Meta::from_json(meta.to_json().as_bytes()).unwrap();
    assert_eq!((read.mount, read.container), (meta.mount, meta.container));
}

#[test]
fn a_root_image_that_is_mounted_elsewhere_has_no_views() {
    let mut meta = Meta { mount: Some("/".parse().unwrap()), ..meta() };
    meta.relocate_views(&"/mnt".parse().unwrap());
    assert_eq!((meta.views.len(), meta.default_view), (0, None));
}

#[test]
fn the_images_on_which_an_image_is_built_are_read_as_they_were_written() {
    let base = |name: &str, digit: &str| ImageBase {
        label: format!("{name}/1.0"),
        digest: digit.repeat(64).parse().unwrap(),
        mount: format!("/user-{name}").parse().unwrap(),
    };
    let meta = Meta { bases: vec![base("libraries", "1"), base("mpi", "2")], ..meta() };
    assert_eq!(Meta::from_json(meta.to_json().as_bytes()).unwrap().bases, meta.bases);
}
