// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Mirrors that want a secret: which commands of Spack get it. Spack is the stand-in
//! of `spack.rs`; with real Spack, registries and S3 are in `spack_mirrors.rs`.

use std::fs;

use cabane_testkit::Finished;

use crate::cabane::Who;
use crate::spack::{STAND_IN, Stack};

/// A cache that wants a secret, and sources that want a token.
const MIRRORS: &str = "buildcache:\n  name: site\n  url: oci://example.org/cache\n  signed: false\n  \
                       autopush: true\n  access_pair:\n    id: me\n    \
                       secret_variable: OUR_SECRET\nsourcemirror:\n  vault:\n    \
                       url: https://example.org/sources\n    access_token_variable: OUR_TOKEN\n";

/// Notes which mirrors every command knows, and whether it knows the secrets; has nothing
/// in caches.
const NOTES: &str = "\
command=$1
case \"$*\" in *--cache-only*) command=take ;; esac
mirrors=$(cat \"$SPACK_SYSTEM_CONFIG_PATH/mirrors.yaml\" $guarded | grep -o 'site:\\|vault:' | tr -d '\\n')
echo \"$command $mirrors $OUR_SECRET $OUR_TOKEN\" >>/tmp/known
if [ $command = take ]; then exit 1; fi
";

/// A stack whose system has these mirrors.
fn with_mirrors(mirrors: &str, refusal: &str) -> Stack {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.cabane.world.file("system/mirrors.yaml", mirrors);
    let script = STAND_IN.replace("$MOUNT", &stack.cabane.mount_point("stack"));
    let script = script.replace(
        "    case $1 in -e",
        "    case $1 in -C) [ ! -e \"$2/mirrors.yaml\" ] || guarded=$2/mirrors.yaml ;; esac\n    \
         case $1 in -e",
    );
    let notes = format!("{NOTES}if [ $command = buildcache ]; then\n{refusal}:\nfi\n");
    let script = script.replace("env | sort >", &format!("{notes}env | sort >"));
    stack.cabane.world.file("spack/bin/spack", &script);
    stack.commit("spack");
    stack
}

fn build(stack: &Stack, variables: &[(&str, &str)]) -> Finished {
    let mut command = stack.command(&["stack/1.0"]);
    stack.cabane.finish(command.envs(variables.iter().copied()))
}

fn known(stack: &Stack) -> String {
    let known = fs::read_to_string(stack.cabane.world.path("build/tmp/known")).unwrap();
    let lines = known.lines().map(str::trim_end);
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn only_commands_that_fetch_or_push_get_secrets() {
    let stack = with_mirrors(MIRRORS, "");
    let secrets = [("OUR_SECRET", "swordfish"), ("OUR_TOKEN", "tuna")];
    build(&stack, &secrets).success();
    let expected = "concretize\n\
                    take site:vault: swordfish tuna\n\
                    fetch site:vault: swordfish tuna\n\
                    python\n\
                    install\n\
                    buildcache site:vault: swordfish tuna\n\
                    env";
    assert_eq!(known(&stack), expected);
    fs::remove_file(stack.cabane.world.path("build/tmp/known")).unwrap();
    let mut search = stack.cabane.other("grep");
    search.args(["-rlaE", "--exclude=cabane", "swordfish|tuna", &stack.path("")]);
    assert_eq!(Finished::of(&mut search).stdout, "");
}

#[test]
fn a_mirror_whose_variable_is_not_set_is_left_out() {
    let stack = with_mirrors(MIRRORS, "");
    let built = build(&stack, &[("OUR_TOKEN", "tuna")]).success();
    let shown = "warning: nothing comes from the mirror `site`: `OUR_SECRET` is not set\n\
                warning: nothing is put into the mirror `site`: `OUR_SECRET` is not set\n";
    assert!(built.stderr.contains(shown), "{built:?}");
    let expected = "concretize\ntake vault:  tuna\nfetch vault:  tuna\npython\ninstall\nenv";
    assert_eq!(known(&stack), expected);
}

#[test]
fn a_secret_that_is_refused_is_named_without_its_value() {
    let refusal = "echo 'HEAD https://example.org/v2/ returned 401: Failed to login'; exit 1\n";
    let stack = with_mirrors(MIRRORS, refusal);
    let secrets = [("OUR_SECRET", "swordfish"), ("OUR_TOKEN", "tuna")];
    let built = build(&stack, &secrets);
    let shown = "warning: the mirror `site` may have refused what is in `OUR_SECRET`\n";
    assert!(built.stderr.contains(shown), "{built:?}");
    assert!(!built.stderr.contains("swordfish") && !built.stderr.contains("`vault`"), "{built:?}");
}

#[test]
fn a_profile_is_left_out_and_its_replacement_is_named() {
    let mirrors = "buildcache: {url: 's3://stacks/cache', signed: false, profile: mine}\n";
    let stack = with_mirrors(mirrors, "");
    let built = build(&stack, &[]).success();
    let shown = "warning: the profile `mine` of the mirror `buildcache` is in your home";
    assert!(built.stderr.contains(shown), "{built:?}");
    let handed = stack.path("build/work/spack/config/guarded/mirrors.yaml");
    let handed = fs::read_to_string(handed).unwrap();
    assert!(handed.contains("s3://") && !handed.contains("mine"), "{handed}");
}
