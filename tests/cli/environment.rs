// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Environment files: `--environment`, `cabane environment`, `cabane status --save`.

use crate::cabane::{APP, Cabane, Who, everybody, finished};

/// A world with the image `app`, a second image `tools` outside the repository, and
/// some environment files.
fn world(who: Who) -> Cabane {
    let cabane = Cabane::with_app(who);
    cabane.image("tools", &cabane.mount_point("tools"));
    cabane.world.file("data/input", "from the host\n");
    cabane
}

fn digest(cabane: &Cabane) -> String {
    let arguments = ["image", "inspect", "app", "--format={digest}"];
    cabane.run(&arguments).success().stdout.trim().to_owned()
}

#[test]
fn a_file_names_images_mounts_variables_and_a_directory() {
    for who in everybody() {
        let cabane = world(who);
        cabane.world.file(
            "climate.toml",
            "images = [\"app\", \"./tools.squashfs\"]\nmounts = [\"./data:/cabane-data:ro\"]\n\
             workdir = \"/cabane-data\"\n[env]\nWHO = \"${HOME:-nobody}\"\nLANG = \"\"\n",
        );
        let script = "hello; cat input; echo $WHO; echo ${LANG-unset}; pwd; touch x 2>&1 | grep -o Read-only";
        let seen = cabane.run(&["run", "-e", "../climate.toml", "--", "sh", "-c", script]);
        let expected =
            "hello from tools\nfrom the host\n[WORLD]/home\nunset\n/cabane-data\nRead-only\n";
        assert_eq!(seen, finished(0, expected, ""), "as {who:?}");
    }
}

#[test]
fn a_file_is_found_by_its_name() {
    for who in everybody() {
        let cabane = world(who);
        let path = "home/.config/cabane/environments/climate.toml";
        cabane.world.file(path, "images = [\"app\"]\n");
        let seen = cabane.run(&["run", "--environment", "climate", "--", "hello"]);
        assert_eq!(seen, finished(0, "hello from app\n", ""), "as {who:?}");
    }
}

#[test]
fn a_variable_names_the_directories_that_are_searched() {
    let cabane = world(Who::OrdinaryUser);
    cabane.world.file("one/climate.toml", "images = [\"app\"]\n");
    cabane.world.file("two/climate.toml", "images = [\"nothing\"]\n");
    let mut command = cabane.command(&["run", "-e", "climate", "--", "hello"]);
    let list = [cabane.world.path("one"), cabane.world.path("two")];
    command.env("CABANE_ENVIRONMENT_PATH", std::env::join_paths(list).unwrap());
    assert_eq!(cabane.finish(&mut command), finished(0, "hello from app\n", ""));
}

#[test]
fn a_file_may_stand_where_images_do() {
    for who in everybody() {
        let cabane = world(who);
        cabane.world.file("work/climate.toml", "images = [\"app\"]\n");
        let seen = cabane.run(&["run", "./climate.toml", "--", "hello"]);
        assert_eq!(seen, finished(0, "hello from app\n", ""), "as {who:?}");
    }
}

#[test]
fn images_beside_a_file_come_with_their_views() {
    for who in everybody() {
        let cabane = world(who);
        cabane.world.file("climate.toml", "images = [\"app\"]\nviews = [\"default\"]\n");
        let arguments = ["run", "-e", "../climate.toml", "../tools.squashfs", "--"];
        let inside = [cabane.program(), "status", "--format=views"];
        let seen = cabane.run(&[&arguments[..], &inside].concat());
        assert_eq!(seen, finished(0, "app:default,tools:default\n", ""), "as {who:?}");
    }
}

#[test]
fn views_that_are_typed_replace_those_of_a_file() {
    let cabane = world(Who::OrdinaryUser);
    cabane.world.file(
        "climate.toml",
        "images = [\"app\", \"./tools.squashfs\"]\nviews = [\"app:default\"]\n",
    );
    let arguments = ["run", "-e", "../climate.toml", "--view=tools:default", "--"];
    let inside = [cabane.program(), "status", "--format=views"];
    let seen = cabane.run(&[&arguments[..], &inside].concat());
    assert_eq!(seen, finished(0, "tools:default\n", ""));
}

#[test]
fn variables_of_a_file_win_over_views_and_extend_their_lists() {
    for who in everybody() {
        let cabane = world(who);
        cabane.world.file(
            "climate.toml",
            "images = [\"app\"]\n[env]\nCABANE_TEST = \"mine\"\nPATH = { prepend = \"/first\" }\n",
        );
        let script = "echo $CABANE_TEST; echo $PATH | cut -d: -f1,2";
        let seen = cabane.run(&["run", "-e", "../climate.toml", "--", "sh", "-c", script]);
        assert_eq!(seen, finished(0, "mine\n/first:[WORLD]/mnt/app/bin\n", ""), "as {who:?}");
    }
}

#[test]
fn a_file_that_replaces_the_path_of_a_view_is_warned_about() {
    let cabane = world(Who::OrdinaryUser);
    cabane.world.file("climate.toml", "images = [\"app\"]\n[env]\nPATH = \"/usr/bin:/bin\"\n");
    let seen = cabane.run(&["run", "-e", "../climate.toml", "--", "true"]);
    let expected = "warning: the environment file replaces PATH, and what the views put there is \
                    lost: to add to it write `PATH = { prepend = \"…\" }`\n";
    assert_eq!(seen, finished(0, "", expected));
}

#[test]
fn a_file_goes_on_where_its_base_ends() {
    for who in everybody() {
        let cabane = world(who);
        cabane.world.file(
            "sub/base.toml",
            "images = [\"app\"]\nworkdir = \".\"\n[env]\nA = \"1\"\nB = \"1\"\n",
        );
        cabane.world.file(
            "climate.toml",
            "base = \"sub/base.toml\"\nimages = [\"./tools.squashfs\"]\n[env]\nB = \"2\"\n",
        );
        let script = "hello; echo $A $B; pwd";
        let seen = cabane.run(&["run", "-e", "../climate.toml", "--", "sh", "-c", script]);
        assert_eq!(seen, finished(0, "hello from tools\n1 2\n[WORLD]/sub\n", ""), "as {who:?}");
    }
}

#[test]
fn a_file_that_is_its_own_base_is_refused_with_the_chain() {
    let cabane = world(Who::OrdinaryUser);
    cabane.world.file("a.toml", "base = \"./b.toml\"\n");
    cabane.world.file("b.toml", "base = [\"./a.toml\"]\n");
    let seen = cabane.run(&["environment", "check", "../a.toml"]);
    let expected = "error: an environment file is its own base: [WORLD]/work/../a.toml -> \
                    [WORLD]/b.toml -> [WORLD]/a.toml\n\
                    hint: remove `base` from one of them\n";
    assert_eq!(seen, finished(3, "", expected));
}

#[test]
fn more_than_ten_levels_of_bases_are_refused() {
    let cabane = world(Who::OrdinaryUser);
    for level in 0..11 {
        let text = format!("base = \"./{}.toml\"\n", level + 1);
        cabane.world.file(&format!("work/{level}.toml"), &text);
    }
    cabane.world.file("work/11.toml", "");
    let codes =
        ["./1.toml", "./2.toml"].map(|file| cabane.run(&["environment", "check", file]).code);
    assert_eq!(codes, [3, 0]);
}

#[test]
fn many_bases_that_share_bases_are_read_once() {
    let cabane = world(Who::OrdinaryUser);
    for level in 0..9 {
        let base = format!("\"./{}.toml\",", level + 1).repeat(20);
        cabane.world.file(&format!("work/{level}.toml"), &format!("base = [{base}]\n"));
    }
    cabane.world.file("work/9.toml", "images = [\"app\"]\n");
    let seen = cabane.run(&["environment", "show", "./0.toml"]);
    assert_eq!(seen, finished(0, "images = [\"app\"]\n", ""));
}

#[test]
fn a_base_that_is_missing_is_reported_with_the_line_that_names_it() {
    let cabane = world(Who::OrdinaryUser);
    cabane.world.file("work/climate.toml", "images = []\nbase = \"commn\"\n");
    cabane.world.file("home/.config/cabane/environments/common.toml", "");
    let seen = cabane.run(&["run", "-e", "./climate.toml", "--", "true"]);
    let expected = "error: there is no environment file `commn`, the base of \
                    [WORLD]/work/climate.toml:2:8\nhint: did you mean `common`?\n";
    assert_eq!(seen, finished(125, "", expected));
}

#[test]
fn mistakes_in_a_file_are_reported_with_their_places() {
    let cabane = world(Who::OrdinaryUser);
    cabane.world.file("work/climate.toml", "view = \"app\"\n[env]\nA = \"${NOT_SET}\"\n");
    let seen = cabane.run(&["run", "-e", "./climate.toml", "--", "true"]);
    let expected = "error: 2 mistakes in the environment file\n\
        [WORLD]/work/climate.toml:1:1: unknown key `view`\n  | view = \"app\"\n  | ^^^^\n  \
        hint: write `views = [\"…\"]`\n\
        [WORLD]/work/climate.toml:3:6: the variable `NOT_SET` is not set\n  | A = \"${NOT_SET}\"\n  \
        |      ^\n  hint: set it, or write what stands for it then: `${NOT_SET:-…}`\n";
    assert_eq!(seen, finished(125, "", expected));
}

#[test]
fn a_working_directory_that_is_not_there_is_one_clear_error() {
    for who in everybody() {
        let cabane = world(who);
        cabane.world.file("work/climate.toml", "images = [\"app\"]\nworkdir = \"/nowhere\"\n");
        let seen = cabane.run(&["run", "./climate.toml", "--", "true"]);
        let expected = "error: cannot start in the directory /nowhere\n\
            cause: No such file or directory (os error 2)\n\
            hint: it must exist inside the environment: see `workdir` of the environment file\n";
        assert_eq!(seen, finished(125, "", expected), "as {who:?}");
    }
}

#[test]
fn a_directory_that_is_not_there_cannot_be_mounted() {
    let cabane = world(Who::OrdinaryUser);
    cabane.world.file("work/climate.toml", "mounts = [\"./gone:/data\"]\n");
    let seen = cabane.run(&["run", "./climate.toml", "--", "true"]);
    let expected = "error: cannot mount [WORLD]/work/gone\n\
                    cause: No such file or directory (os error 2)\n";
    assert_eq!(seen, finished(125, "", expected));
}

#[test]
fn a_single_file_can_be_mounted_over_another() {
    for who in everybody() {
        let cabane = world(who);
        cabane.world.file("work/release", "another system\n");
        cabane.world.file(
            "work/climate.toml",
            "mounts = [{ source = \"./release\", target = \"/etc/hostname\", read-only = true }]\n",
        );
        let seen = cabane.run(&["run", "./climate.toml", "--", "cat", "/etc/hostname"]);
        assert_eq!(seen, finished(0, "another system\n", ""), "as {who:?}");
    }
}

#[test]
fn what_is_read_only_is_so_with_everything_mounted_below() {
    for who in everybody() {
        let cabane = world(who);
        cabane.world.file("work/climate.toml", "mounts = [\"/dev:/cabane-dev:ro\"]\n");
        let script = "ls /cabane-dev/null && touch /cabane-dev/shm/cabane-test";
        let seen = cabane.run(&["run", "./climate.toml", "--", "sh", "-c", script]);
        let expected = "touch: cannot touch '/cabane-dev/shm/cabane-test': Read-only file system\n";
        assert_eq!(seen, finished(1, "/cabane-dev/null\n", expected), "as {who:?}");
    }
}

#[test]
fn an_image_covers_what_comes_along_with_a_directory() {
    for who in everybody() {
        let cabane = world(who);
        cabane.world.file(
            "work/climate.toml",
            "mounts = [\"/dev:/cabane-dev:ro\"]\nimages = [\"app:/cabane-dev/shm\"]\n",
        );
        let seen = cabane.run(&["run", "./climate.toml", "--", "cat", "/cabane-dev/shm/name"]);
        assert_eq!((seen.code, seen.stdout.as_str()), (0, "app"), "as {who:?}: {}", seen.stderr);
    }
}

#[test]
fn an_image_that_a_file_names_in_vain_is_known_to_stand_there() {
    let cabane = world(Who::OrdinaryUser);
    cabane.world.file("work/climate.toml", "images = [\"gone\"]\n");
    let seen = cabane.run(&["run", "./climate.toml", "--", "true"]);
    let last = "hint: the environment file names this image, or one of its bases does";
    assert_eq!((seen.code, seen.stderr.lines().last()), (125, Some(last)));
}

#[test]
fn show_shows_what_comes_of_bases_and_variables() {
    let cabane = world(Who::OrdinaryUser);
    cabane.world.file("work/base.toml", "images = [\"app\"]\n[env]\nA = \"${HOME}\"\n");
    cabane.world.file("work/climate.toml", "base = \"./base.toml\"\nworkdir = \"~/x\"\n");
    let seen = cabane.run(&["environment", "show", "./climate.toml"]);
    let expected =
        "images = [\"app\"]\nworkdir = \"[WORLD]/home/x\"\n\n[env]\nA = \"[WORLD]/home\"\n";
    assert_eq!(seen, finished(0, expected, ""));
}

#[test]
fn named_files_are_listed() {
    let cabane = world(Who::OrdinaryUser);
    let directory = "home/.config/cabane/environments";
    cabane.world.file(&format!("{directory}/climate.toml"), "description = \"for the models\"\n");
    cabane.world.file(&format!("{directory}/broken.toml"), "imges = []\n");
    let seen = cabane.run(&["environment", "ls", "--json"]).success();
    let rows: serde_json::Value = serde_json::from_str(&seen.stdout).unwrap();
    let cells = |row: &serde_json::Value| (row["name"].clone(), row["description"].clone());
    let rows: Vec<_> = rows.as_array().unwrap().iter().map(cells).collect();
    assert_eq!(rows, [("broken".into(), ().into()), ("climate".into(), "for the models".into())]);
}

#[test]
fn what_is_saved_and_started_again_has_the_same_status() {
    for who in everybody() {
        let cabane = world(who);
        cabane.world.file(
            "work/climate.toml",
            "images = [\"app:/cabane-app\", \"../tools.squashfs\"]\nviews = [\"tools:default\", \"app:default\"]\n\
             mounts = [\"../data:/cabane-data:ro\"]\nworkdir = \"/cabane-data\"\n[env]\nA = \"$${x}\"\n\
             PATH = { prepend = [\"/first\"], append = [\"/last\"] }\n",
        );
        // Inside, the working directory is another one.
        let saved = cabane.world.path("work/saved.toml");
        let saved = saved.to_string_lossy();
        let arguments =
            ["run", "./climate.toml", "--", cabane.program(), "status", "--save", &saved];
        cabane.run(&arguments).success();
        let compare = "for file in climate saved; do $CABANE run ./$file.toml -- \
             sh -c \"$CABANE status --json; pwd; env | sort\" > $file.out 2>/dev/null; \
             done; cmp climate.out saved.out && grep -q first climate.out";
        let seen = cabane.finish(cabane.other("sh").args(["-c", compare]));
        assert_eq!(seen.code, 0, "as {who:?}: {}{}", seen.stdout, seen.stderr);
    }
}

#[test]
fn a_saved_file_pins_images_by_digest_and_shows_their_labels() {
    for who in everybody() {
        let cabane = world(who);
        let digest = digest(&cabane);
        let arguments =
            ["run", "app", "--no-default-view", "--", cabane.program(), "status", "--save=-"];
        let expected = format!(
            "# Written by `cabane status --save`. `cabane start -e FILE` enters it again.\n\
             images = [\n  \"{digest}:[WORLD]/mnt/app\", # {APP}\n]\ndefault-views = false\n"
        );
        assert_eq!(cabane.run(&arguments), finished(0, &expected, ""), "as {who:?}");
    }
}

#[test]
fn a_file_that_exists_is_not_replaced_unless_requested() {
    let cabane = world(Who::OrdinaryUser);
    cabane.world.file("work/saved.toml", "mine");
    let save = |force: &[&str]| {
        let arguments = ["run", "app", "--", cabane.program(), "status", "--save=saved.toml"];
        cabane.run(&[&arguments[..], force].concat())
    };
    let refused = "error: saved.toml exists already\nhint: `--force` replaces it\n";
    assert_eq!(save(&[]), finished(1, "", refused));
    assert_eq!(save(&["--force"]), finished(0, "", "saved in saved.toml\n"));
}

#[test]
fn nothing_can_be_saved_where_nothing_is_loaded() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let seen = cabane.run(&["status", "--save=-"]);
    assert_eq!(seen, finished(8, "", "error: no image is loaded\n"));
}

#[test]
fn a_name_that_ends_like_a_file_is_answered_with_the_path() {
    let cabane = world(Who::OrdinaryUser);
    let seen = cabane.run(&["run", "climate.toml", "--", "true"]);
    let last = seen.stderr.lines().last();
    assert_eq!(last, Some("hint: write `./climate.toml` for the file of this name"));
}

#[test]
fn a_check_reports_everything_that_is_missing_with_its_place() {
    let cabane = world(Who::OrdinaryUser);
    cabane.world.file("work/base.toml", "images = [\"none/1\", \"app\"]\nworkdir = \"/nowhere\"\n");
    cabane.world.file(
        "work/a.toml",
        "base = \"./base.toml\"\nimages = [\"none/2\"]\n\
         views = [\"app:nope\", \"other\", \"default\"]\n\
         mounts = [\"/nowhere/a:/a\", \"/etc:/b\", { source = \"/nowhere/c\", target = \"/c\" }]\n",
    );
    let seen = cabane.run(&["environment", "check", "./a.toml"]);
    let places: Vec<&str> =
        seen.stderr.lines().filter_map(|line| line.strip_prefix("[WORLD]/work/")).collect();
    let expected = [
        "base.toml:1:11: no image matches `none/1`: ",
        "a.toml:2:11: no image matches `none/2`: ",
        "a.toml:3:10: there is no view `app:nope`: ",
        "a.toml:4:11: cannot mount /nowhere/a: ",
        "a.toml:4:39: cannot mount /nowhere/c: ",
    ];
    let are_same = places.iter().zip(expected).all(|(place, start)| place.starts_with(start));
    assert!(seen.code == 4 && places.len() == 5 && are_same, "{}", seen.stderr);
    // Another image may have the view and the directory.
    for unknown in ["the view `other` was not checked", "the directory /nowhere was not checked"] {
        assert!(seen.stderr.contains(unknown), "{}", seen.stderr);
    }
}

#[test]
fn what_a_file_names_and_is_not_here_is_found_by_a_check() {
    let cabane = world(Who::OrdinaryUser);
    for (text, expected) in [
        ("images = [\"nothing/1.0\"]\n", "1:11: no image matches `nothing/1.0`: "),
        ("images = [\"app\"]\nviews = [\"nope\"]\n", "2:10: there is no view `nope`"),
        ("mounts = [\"/nowhere/x:/data\"]\n", "1:11: cannot mount /nowhere/x: No such file"),
        ("workdir = \"/nowhere/y\"\n", "1:11: cannot start in the directory /nowhere/y: No such"),
        ("mounts = [\"/etc:/data\"]\nworkdir = \"/data/passwd\"\n", "2:11: cannot start in "),
    ] {
        cabane.world.file("work/a.toml", text);
        let seen = cabane.run(&["environment", "check", "./a.toml"]);
        let expected =
            format!("error: a mistake in the environment file\n[WORLD]/work/a.toml:{expected}");
        assert!(seen.code == 4 && seen.stderr.starts_with(&expected), "{text}: {seen:?}");
    }
    cabane.world.file("work/a.toml", "images = [\"app\"]\n");
    let seen = cabane.run(&["environment", "check", "./a.toml"]);
    assert_eq!(seen, finished(0, "", "./a.toml: no mistake\n"));
}
