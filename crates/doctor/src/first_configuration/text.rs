// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The texts of both files. What was found is in effect; what a site has to choose is an example in a comment.

use cabane_label::escape;
use cabane_recipe::settings::table::{self, Setting};

use super::found::Found;
use crate::facts::{Fuse, Has, Kernel};

/// The policy that `install.sh` writes.
const TEMPLATE: &str = include_str!("../../../../packaging/mount.policy");
const EXAMPLE_OF_BIND: &str = "# root-bind /scratch";

/// Returns the text of `config.toml`.
pub(super) fn config(found: &Found) -> String {
    let mut text = Text(String::new());
    head(&mut text, found);
    let system = found.system.as_ref();
    text.help(&table::SYSTEM);
    if let Some((_, origin)) = system {
        text.remark(&format!("Found: {origin}."));
    }
    text.choice(&table::SYSTEM, system.map(|(name, _)| quoted(name)));
    text.setting(&table::UARCH, None);
    repositories(&mut text, found);
    build(&mut text, found);
    text.example(&table::REGISTRY, &[&table::REGISTRY_URL, &table::NAMESPACE]);
    text.example(
        &table::TRUST,
        &[&table::TRUST_NAMESPACE, &table::TRUST_REQUIRE, &table::TRUST_KEYS],
    );
    container(&mut text, found);
    if let Some(version) = &found.slurm {
        text.line("");
        text.remark(&format!(
            "This machine has Slurm {}. `cabane slurm install` adds the plugin to plugstack.conf.",
            escape(version)
        ));
        text.example(&table::SLURM, &[&table::CONTAINER_OPTIONS]);
    }
    text.line("");
    text.remark(
        "MPIs that can replace others: `cabane system probe --output DIR` writes entries for them.",
    );
    text.0
}

fn head(text: &mut Text, found: &Found) {
    text.remark("Settings of Cabane for all users of this machine: /etc/cabane/config.toml");
    text.remark("");
    text.remark(&format!(
        "`cabane site init` wrote this file on {}. What it found is in effect: check it. For other settings there",
        escape(&found.host)
    ));
    text.remark("is an example: change it, and remove the `#` before it and before the name of its table. `cabane config`");
    text.remark("shows the settings in effect, and reports mistakes in this file.");
    text.remark("`cabane help config` names the page with all settings.");
    text.remark("");
    let kernel = found.kernel.as_ref().map(|kernel| of_kernel(kernel, found.has_verity));
    text.remark(
        &kernel.unwrap_or_else(|reason| format!("The kernel was not looked at: {reason}.")),
    );
    text.remark(&of_users(found));
    text.line("");
}

fn of_kernel(kernel: &Kernel, has_verity: bool) -> String {
    let known = [
        ("squashfs", kernel.squashfs),
        ("EROFS", kernel.erofs),
        ("loop devices", if kernel.loops.control { Has::Yes } else { Has::No }),
        ("dm-verity", if has_verity { Has::Yes } else { Has::No }),
    ];
    let named = |wanted: Has| {
        let names = known.iter().filter(|(_, has)| *has == wanted).map(|(name, _)| *name);
        names.collect::<Vec<_>>().join(", ")
    };
    let mut text =
        format!("Linux {} has {}", escape(&kernel.release), or_nothing(&named(Has::Yes)));
    for (wanted, words) in [(Has::No, "it lacks"), (Has::Unknown, "only root can find out about")] {
        let list = named(wanted);
        if !list.is_empty() {
            text += &format!("; {words} {list}");
        }
    }
    text + "."
}

fn or_nothing(names: &str) -> &str {
    if names.is_empty() { "none of what is needed" } else { names }
}

fn of_users(found: &Found) -> String {
    let has = |is: bool| if is { "can" } else { "cannot" };
    let namespaces = has(found.has_user_namespaces);
    let fuse = match &found.fuse {
        Ok(Fuse { device: Err(_), .. }) => "/dev/fuse is closed to them".to_owned(),
        Ok(Fuse { squashfs: Some(program), .. }) => format!("{} serves images", program.path),
        Ok(_) => "`squashfuse` is missing".to_owned(),
        Err(reason) => format!("FUSE was not looked at: {reason}"),
    };
    format!(
        "Users {namespaces} make user namespaces; {}. `cabane doctor` says more.",
        escape(&fuse)
    )
}

fn repositories(text: &mut Text, found: &Found) {
    let keys = [&table::REPOSITORY_NAME, &table::REPOSITORY_PATH, &table::REPOSITORY_PRIORITY];
    if found.repositories.is_empty() {
        let place = found.shared.first().map_or("/shared", |one| one.mount_point.as_str());
        let place = format!("{}/cabane/repository", place.trim_end_matches('/'));
        text.line("");
        text.remark(&format!(
            "No shared repository was found. `cabane repo create {place}` makes one."
        ));
        text.example(&table::REPOSITORIES, &keys);
        return;
    }
    for (number, repository) in found.repositories.iter().enumerate() {
        text.line("");
        if number == 0 {
            text.help(&table::REPOSITORIES);
        }
        text.line(table::REPOSITORIES.example);
        let name = if number == 0 { "site".to_owned() } else { format!("site{}", number + 1) };
        text.value("name", &quoted(&name));
        text.value("path", &quoted(&repository.path));
        text.remark("Below that of users, which has 9: their own images come first.");
        text.value("priority", "5");
    }
}

fn build(text: &mut Text, found: &Found) {
    let lacks_squashfs = found
        .kernel
        .as_ref()
        .is_ok_and(|kernel| kernel.squashfs == Has::No && kernel.erofs == Has::Yes);
    let more = [&table::BUILD_DIRECTORY, &table::SHARED_CACHE, &table::INDEX_URLS];
    if lacks_squashfs {
        text.line("");
        text.help(&table::BUILD);
        text.line(table::BUILD.example);
        text.remark("The kernel has EROFS and no squashfs.");
        text.setting(&table::FORMAT, Some(quoted("erofs")));
        for setting in more {
            text.setting(setting, None);
        }
    } else {
        text.example(&table::BUILD, &more);
    }
}

fn container(text: &mut Text, found: &Found) {
    if found.shared.is_empty() && found.devices.is_empty() {
        text.example(&table::CONTAINER, &[&table::BINDS, &table::DEFAULT_REGISTRY]);
        return;
    }
    text.line("");
    text.help(&table::CONTAINER);
    text.line(table::CONTAINER.example);
    if !found.shared.is_empty() {
        let kinds = found.shared.iter().map(|one| format!("{} is {}", one.mount_point, one.kind));
        text.remark(&format!("Found: {}.", kinds.collect::<Vec<_>>().join(", ")));
    }
    let list = |items: Vec<String>| (!items.is_empty()).then(|| format!("[{}]", items.join(", ")));
    let binds = found.shared.iter().map(|one| quoted(&one.mount_point)).collect();
    text.setting(&table::BINDS, list(binds));
    let whole = found.devices.iter().filter(|name| name.ends_with("=all"));
    text.setting(&table::DEVICES, list(whole.map(|name| quoted(name)).collect()));
    text.setting(&table::DEFAULT_REGISTRY, None);
}

/// Returns the text of `mount.policy`.
pub(super) fn policy(found: &Found) -> String {
    let is_any_there = found.mount_points.iter().any(|(_, is_there)| *is_there);
    let points = found.mount_points.iter().map(|(path, is_there)| {
        let missing = format!("# {path} is missing: sudo install -d -m 0755 {path}\n");
        match (is_there, is_any_there) {
            (true, _) => format!("mount-point {path}"),
            (false, true) => format!("{missing}# mount-point {path}"),
            (false, false) => format!("{missing}mount-point {path}"),
        }
    });
    let points: Vec<String> = points.collect();
    let mut text =
        TEMPLATE.replace("@MOUNT_POINTS@", &points.join("\n")).replace("@IMAGE_OWNERS@", "root");
    // Whom the kernel trusts is for root to choose.
    for one in found.repositories.iter().filter(|one| one.owner != 0) {
        let owner = one.owner;
        let remark =
            format!("# {} belongs to user {owner}: `root {owner}` trusts its images.", one.path);
        text = text.replace("image-owners root", &format!("{remark}\nimage-owners root"));
    }
    let binds: Vec<String> =
        found.shared.iter().map(|one| format!("# root-bind {}", one.mount_point)).collect();
    if !binds.is_empty() {
        text = text.replace(EXAMPLE_OF_BIND, &binds.join("\n"));
    }
    text
}

/// Lines of `config.toml`.
struct Text(String);

impl Text {
    fn line(&mut self, line: &str) {
        self.0 += line;
        self.0.push('\n');
    }

    fn remark(&mut self, text: &str) {
        self.line(format!("# {text}").trim_end());
    }

    fn help(&mut self, setting: &Setting) {
        for line in setting.help {
            self.remark(line.trim());
        }
    }

    fn value(&mut self, name: &str, value: &str) {
        self.line(&format!("{name} = {value}"));
    }

    /// A setting with its help; an example in a comment if it has no value.
    fn setting(&mut self, setting: &Setting, value: Option<String>) {
        self.help(setting);
        self.choice(setting, value);
    }

    fn choice(&mut self, setting: &Setting, value: Option<String>) {
        match value {
            Some(value) => self.value(setting.name(), &value),
            None => self.line(&format!("#{} = {}", setting.name(), setting.example)),
        }
    }

    /// A table in comments.
    fn example(&mut self, table: &Setting, settings: &[&Setting]) {
        self.line("");
        self.help(table);
        self.line(&format!("#{}", table.example));
        for setting in settings {
            self.setting(setting, None);
        }
    }
}

/// A text as TOML has it.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cabane_mount::{ImageOwners, Policy};

    use super::super::found::{FileSystem, Repository};
    use super::*;
    use crate::facts::{Loops, NoAnswer};

    fn bare() -> Found {
        Found {
            host: "node1".to_owned(),
            system: None,
            slurm: None,
            kernel: Err(NoAnswer::Silent(5)),
            has_verity: false,
            has_user_namespaces: false,
            fuse: Err(NoAnswer::Silent(5)),
            shared: Vec::new(),
            repositories: Vec::new(),
            mount_points: vec![
                ("/user-environment".to_owned(), false),
                ("/user-tools".to_owned(), false),
            ],
            devices: Vec::new(),
        }
    }

    fn cluster() -> Found {
        Found {
            system: Some(("alps".to_owned(), "ClusterName in /etc/slurm/slurm.conf".to_owned())),
            slurm: Some("24.11.5".to_owned()),
            kernel: Ok(Kernel {
                release: "5.14.0".to_owned(),
                new_mount_calls: Has::Yes,
                openat2: Has::Yes,
                squashfs: Has::No,
                erofs: Has::Yes,
                loops: Loops { control: true, ..Loops::default() },
            }),
            shared: vec![FileSystem {
                mount_point: "/scratch".to_owned(),
                kind: "lustre".to_owned(),
            }],
            repositories: vec![Repository { path: "/scratch/cabane".to_owned(), owner: 4711 }],
            mount_points: vec![
                ("/user-environment".to_owned(), true),
                ("/user-tools".to_owned(), false),
            ],
            devices: vec!["nvidia.com/gpu=0".to_owned(), "nvidia.com/gpu=all".to_owned()],
            ..bare()
        }
    }

    /// The lines that are in effect.
    fn in_effect(text: &str) -> Vec<&str> {
        text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
    }

    #[test]
    fn what_was_found_is_in_effect() {
        let text = config(&cluster());
        assert_eq!(
            in_effect(&text),
            [
                "system_name = \"alps\"",
                "[[repositories]]",
                "name = \"site\"",
                "path = \"/scratch/cabane\"",
                "priority = 5",
                "[build]",
                "format = \"erofs\"",
                "[container]",
                "binds = [\"/scratch\"]",
                "devices = [\"nvidia.com/gpu=all\"]",
            ]
        );
        assert!(
            text.contains("# Linux 5.14.0 has EROFS, loop devices; it lacks squashfs, dm-verity.")
        );
        assert!(text.contains("This machine has Slurm 24.11.5."), "{text}");
    }

    #[test]
    fn where_nothing_was_found_everything_is_an_example() {
        let text = config(&bare());
        assert_eq!(in_effect(&text), [""; 0]);
        assert!(text.contains("# No shared repository was found."), "{text}");
    }

    #[test]
    fn both_files_are_accepted_and_so_are_the_examples() {
        for found in [bare(), cluster()] {
            let text = config(&found);
            let parse = |text: &str| {
                cabane_recipe::settings::parse_settings(Path::new("config.toml"), text.as_bytes())
            };
            parse(&text).unwrap();
            let chosen: Vec<&str> = text
                .lines()
                .map(|line| {
                    line.strip_prefix('#')
                        .filter(|rest| !rest.starts_with(['#', ' ']))
                        .unwrap_or(line)
                })
                .collect();
            parse(&chosen.join("\n")).unwrap();
            assert!(chosen.contains(&"[registry]"), "{chosen:?}");
            Policy::parse(&policy(&found)).unwrap();
        }
    }

    #[test]
    fn the_policy_has_mount_points_that_are_there_and_trusts_root_alone() {
        let of_cluster = Policy::parse(&policy(&cluster())).unwrap();
        assert_eq!(of_cluster.mount_points, [Path::new("/user-environment")]);
        assert_eq!(of_cluster.image_owners, ImageOwners::Listed(vec![0]));
        let remark = "# /scratch/cabane belongs to user 4711: `root 4711` trusts its images.\n";
        assert!(policy(&cluster()).contains(remark));
        let text = policy(&bare());
        assert_eq!(Policy::parse(&text).unwrap().mount_points.len(), 2);
        assert!(text.contains("sudo install -d -m 0755 /user-tools"), "{text}");
    }
}
