// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Each list of a file keeps what is around it.

use proptest::prelude::*;

use super::{ListFormat, PackageList, environment_names};

fn requirements(text: &str) -> PackageList<'_> {
    PackageList::read(text, &ListFormat::Requirements).unwrap()
}

fn project(text: &str) -> PackageList<'_> {
    PackageList::read(text, &ListFormat::Project).unwrap()
}

fn environment<'t>(text: &'t str, name: &str) -> PackageList<'t> {
    PackageList::read(text, &ListFormat::Environment(name.to_owned())).unwrap()
}

const REQUIREMENTS: &str = "# tools\nnumpy>=2  # fast\n\nPandas[excel] \\\n    >=2,<3\n-r more.txt\n\
                            demo @ https://example.org/a#egg=demo\n";

#[test]
fn a_requirement_changes_and_nothing_around_it() {
    let list = requirements(REQUIREMENTS);
    let names: Vec<_> = list.packages().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["numpy", "pandas", "demo"]);
    assert_eq!(list.find("NumPy"), [0]);
    let changed = list.replace(0, "numpy<3").unwrap();
    assert_eq!(changed, REQUIREMENTS.replace("numpy>=2", "numpy<3"));
    let changed = list.remove(1).unwrap();
    assert_eq!(changed, REQUIREMENTS.replace("Pandas[excel] \\\n    >=2,<3\n", ""));
    assert_eq!(list.add("scipy").unwrap(), format!("{REQUIREMENTS}scipy\n"));
    assert_eq!(requirements("a\r\nb").add("c").unwrap(), "a\r\nb\r\nc\r\n");
    assert_eq!(requirements("").add("c").unwrap(), "c\n");
}

#[test]
fn dependencies_of_a_project_keep_their_layout() {
    let several = "[project]\nname = \"p\"\nversion = \"1\"\ndependencies = [\n    # why\n    \
                   \"numpy>=2\", # here\n    'tomli; python_version < \"3.11\"'\n]\n[tool.x]\na = 1\n";
    let list = project(several);
    let added = list.add("scipy").unwrap();
    assert_eq!(added, several.replace("3.11\"'\n", "3.11\"',\n    \"scipy\"\n"));
    assert_eq!(list.remove(0).unwrap(), several.replace("    \"numpy>=2\", # here\n", ""));
    let fewer = list.remove(1).unwrap();
    assert_eq!(
        project(&fewer).add("scipy").unwrap(),
        fewer.replace("# here\n", "# here\n    \"scipy\",\n")
    );
    let quoted = list.replace(0, "a; python_version > \"3\"").unwrap();
    assert!(quoted.contains("'a; python_version > \"3\"', # here"), "{quoted}");
    let one = "project = {name = \"p\", dependencies = [\"a\", \"b\", \"c\"]}\n";
    let removed: Vec<_> = (0..3).map(|index| project(one).remove(index).unwrap()).collect();
    let rests = ["\"b\", \"c\"", "\"a\", \"c\"", "\"a\", \"b\""];
    assert_eq!(removed, rests.map(|rest| one.replace("\"a\", \"b\", \"c\"", rest)));
    let none = "[project]\nname = \"p\"\n[project.scripts]\nx = \"y\"\n";
    let added = project(none).add("numpy").unwrap();
    assert_eq!(added, none.replace("\"p\"\n", "\"p\"\ndependencies = [\"numpy\"]\n"));
    assert!(PackageList::read("[tool]\n", &ListFormat::Project).is_err());
}

const ENVIRONMENTS: &str = "# mine\ntools:\n  compiler: [gcc]\n  specs:\n  # the first\n  - hdf5@1.14 +mpi  # big\n  \
                            - cmake\n  views: {default: }\nother:\n  compiler: [gcc]\n  specs: [zlib, \"a b=c\"]\n";

#[test]
fn specs_of_an_environment_keep_their_layout() {
    let list = environment(ENVIRONMENTS, "tools");
    assert_eq!(list.find("hdf5"), [0]);
    assert_eq!(list.add("fftw").unwrap(), ENVIRONMENTS.replace("- cmake\n", "- cmake\n  - fftw\n"));
    let changed = list.replace(0, "hdf5~mpi").unwrap();
    assert_eq!(changed, ENVIRONMENTS.replace("hdf5@1.14 +mpi", "hdf5~mpi"));
    let fewer = list.remove(0).unwrap();
    assert_eq!(fewer, ENVIRONMENTS.replace("  - hdf5@1.14 +mpi  # big\n", ""));
    let none = environment(&fewer, "tools").remove(0).unwrap();
    assert!(none.contains("  specs: []\n  # the first\n  views"), "{none}");
    assert!(environment(&none, "tools").add("x").unwrap().contains("specs: [x]\n"));
    let flow = environment(ENVIRONMENTS, "other");
    assert_eq!(flow.add("fftw").unwrap(), ENVIRONMENTS.replace("b=c\"]", "b=c\", fftw]"));
    assert_eq!(flow.remove(1).unwrap(), ENVIRONMENTS.replace("zlib, \"a b=c\"", "zlib"));
    assert_eq!(environment_names(ENVIRONMENTS).unwrap(), ["tools", "other"]);
    let empty = "a:\n  specs:\n  compiler: [gcc]\n";
    assert_eq!(environment(empty, "a").add("x").unwrap(), empty.replace("specs:", "specs: [x]"));
}

#[test]
fn a_list_that_two_environments_share_is_not_changed() {
    let text = "a:\n  specs: &all\n  - cmake\nb:\n  specs: *all\n";
    assert!(environment(text, "a").add("zlib").is_err());
    assert!(environment(text, "b").add("zlib").is_err());
}

#[test]
fn what_is_no_spec_is_refused() {
    let list = environment(ENVIRONMENTS, "tools");
    assert!(["hdf5+mpi", "py-numpy@2:", "cmake %gcc"].iter().all(|spec| list.check(spec).is_ok()));
    assert!(["+mpi", "", "a b", "(x)"].iter().all(|spec| list.check(spec).is_err()));
}

proptest! {
    #[test]
    fn no_text_is_too_strange(text in "(\\PC|[\n#\\\\ ,\"'\\[\\]-]|specs:|a:|- |\\[project\\]|dependencies = ){0,40}") {
        let formats = [
            ListFormat::Requirements, ListFormat::Project, ListFormat::Environment("a".to_owned()),
        ];
        for format in formats {
            let Ok(list) = PackageList::read(&text, &format) else { continue };
            let _ = list.add("zlib");
            for index in 0..list.packages().len() {
                let _ = (list.remove(index), list.replace(index, "zlib"));
            }
        }
    }

    #[test]
    fn what_is_added_and_removed_leaves_the_file_as_it_was(
        names in prop::collection::vec("[a-z]{1,6}", 1..5), style in 0..3_usize
    ) {
        let text = match style {
            0 => format!("specs = [{}]\n", names.join(", ")).replace("specs =", "a:\n  specs:"),
            1 => format!("a:\n  specs:\n  - {}\n  views:\n", names.join(" # x\n  - ")),
            _ => format!("a:\n  specs: [\n    {},\n  ]\n", names.join(", # x\n    ")),
        };
        let added = environment(&text, "a").add("zz-new").unwrap();
        let list = environment(&added, "a");
        prop_assert_eq!(list.packages().len(), names.len() + 1);
        prop_assert_eq!(list.remove(names.len()).unwrap(), text);
    }
}
