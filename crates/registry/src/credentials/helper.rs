// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Asking the programs `docker-credential-NAME`, which keep passwords for others.
//!
//! The address of the registry goes to the standard input of `docker-credential-NAME get`,
//! and the answer is JSON on its standard output. The program gets the environment of its
//! caller and stays in its foreground: it may have to ask the user for a password of its own.
//! It is given half a minute and little space.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cabane_label::{escape, shown};
use cabane_process::output::{Limits, OutputError, output_within};
use cabane_report::{Kind, Report, Result};
use rustix::fs::{Access, access};
use serde::Deserialize;

use super::{Credential, Secret};

/// How long a helper may take, with a user who looks for a card and types a number.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(30);

/// What a helper may say; tokens of clouds have a few thousand letters.
const MOST_BYTES: usize = 64 << 10;

/// How helpers say that they have no password for a registry.
const NOTHING_THERE: &str = "credentials not found in native keychain";

/// The name by which helpers say that the secret is a token.
const TOKEN_NAME: &str = "<token>";

/// What is shown of what a helper says.
const MOST_SHOWN: usize = 200;

/// Returns the program of a helper, if its name cannot lead to another one.
pub(super) fn program_named(name: &str) -> Option<String> {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = !name.is_empty() && name.bytes().all(is_safe);
    is_name.then(|| format!("docker-credential-{name}"))
}

/// Looks for a program. Directories that depend on where the user stands are left out.
pub(super) fn find(program: &str, directories: &[PathBuf]) -> Option<PathBuf> {
    let absolute = directories.iter().filter(|path| path.is_absolute());
    let mut places = absolute.map(|directory| directory.join(program));
    places.find(|path| path.is_file() && access(path, Access::EXEC_OK).is_ok())
}

/// Asks a program for what it has for a server.
pub(super) fn ask(program: &Path, server: &str, limit: Duration) -> Result<Option<Credential>> {
    let (shown_program, shown_server) = (shown(program), escape(server));
    let failed = |what: String| {
        Report::new(Kind::Failure, format!("{shown_program} {what}")).hinted(format!(
            "`echo {shown_server} | {shown_program} get` shows what it says, and the password when \
             it succeeds"
        ))
    };
    let strange = || failed("answered something that is not a name and a password".to_owned());
    // In the foreground: it may have to read from the terminal.
    let limits = Limits { end: Instant::now() + limit, bytes: MOST_BYTES, has_group: false };
    let finished = match output_within(Command::new(program).arg("get"), server.as_bytes(), limits)
    {
        Ok(finished) => finished,
        Err(OutputError::Late) => {
            let seconds = TIME_LIMIT.as_secs();
            return Err(failed(format!("did not answer within {seconds} seconds")));
        }
        Err(OutputError::TooMuch) => return Err(strange()),
        Err(OutputError::Start(source) | OutputError::Read(source)) => {
            let message = format!("cannot run {shown_program}");
            return Err(Report::caused(Kind::Failure, message, source));
        }
    };
    if finished.status.success() {
        return answer(&finished.stdout).map_err(|_| strange());
    }
    // Most say it on standard output, where other messages may come with a password.
    if [&finished.stdout, &finished.stderr].iter().any(|text| {
        let text = String::from_utf8_lossy(text);
        text.trim() == NOTHING_THERE
    }) {
        return Ok(None);
    }
    let reason = match beginning(&finished.stderr).as_str() {
        "" => String::new(),
        message => format!(": {}", escape(message)),
    };
    Err(failed(format!("failed to give a password for {shown_server}{reason}")))
}

/// What a helper answers.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    #[serde(default)]
    username: String,
    secret: String,
}

fn answer(output: &[u8]) -> Result<Option<Credential>, serde_json::Error> {
    let Answer { username, secret } = serde_json::from_slice(output)?;
    if secret.is_empty() {
        return Ok(None);
    }
    Ok(Some(if username == TOKEN_NAME {
        Credential::Identity(Secret::new(secret))
    } else {
        Credential::password(username, secret)
    }))
}

/// The first line that says something, and not too much of it.
fn beginning(messages: &[u8]) -> String {
    let text = String::from_utf8_lossy(messages);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or_default().chars().take(MOST_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A helper made of some lines of shell.
    struct Written {
        directory: tempfile::TempDir,
    }

    impl Written {
        fn new(script: &str) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let written = Self { directory };
            let program = written.program();
            fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            written
        }

        fn program(&self) -> PathBuf {
            self.directory.path().join("docker-credential-test")
        }

        fn ask_within(&self, limit: Duration) -> Result<Option<Credential>> {
            ask(&self.program(), "registry.example:5000", limit)
        }

        fn ask(&self) -> Result<Option<Credential>> {
            self.ask_within(LONG)
        }

        /// The message of the error, without the path.
        fn complaint(&self) -> String {
            let error = self.ask().unwrap_err().to_string();
            error.replace(&*self.program().to_string_lossy(), "PROGRAM")
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_helper_gets_the_server_and_gives_a_password() {
        let helper = Written::new(
            r#"[ "$*" = get ] || exit 9
               server=$(cat)
               printf '{"ServerURL": "%s", "Username": "me", "Secret": "for %s"}' x "$server""#,
        );
        assert_eq!(
            helper.ask().unwrap(),
            Some(Credential::password("me", "for registry.example:5000"))
        );
    }

    #[test]
    fn a_helper_may_give_a_token() {
        let helper = Written::new(r#"echo '{"Username": "<token>", "Secret": "t"}'"#);
        assert_eq!(helper.ask().unwrap(), Some(Credential::Identity(Secret::new("t"))));
    }

    #[test]
    fn a_helper_that_does_not_need_the_question_is_heard() {
        let helper = Written::new(r#"exec <&-; echo '{"Username": "me", "Secret": "pw"}'"#);
        assert_eq!(helper.ask().unwrap(), Some(Credential::password("me", "pw")));
    }

    #[test]
    fn a_helper_has_the_environment_of_its_caller() {
        let helper = Written::new(r#"echo "{\"Secret\": \"$CARGO_PKG_NAME\"}""#);
        assert_eq!(helper.ask().unwrap(), Some(Credential::password("", env!("CARGO_PKG_NAME"))));
    }

    #[test]
    fn a_helper_may_have_nothing() {
        for script in [
            "echo 'credentials not found in native keychain'; exit 1",
            "echo 'credentials not found in native keychain' >&2; exit 1",
            r#"echo '{"Username": "", "Secret": ""}'"#,
        ] {
            assert_eq!(Written::new(script).ask().unwrap(), None, "{script}");
        }
    }

    #[test]
    fn a_helper_that_fails_is_quoted_escaped_and_short() {
        let helper = Written::new(r"echo hunter2; printf '\n \033[31mlocked\nmore\n' >&2; exit 1");
        let long = Written::new("printf '%01000d' 7 >&2; exit 1");
        let silent = Written::new("exit 1");
        assert_eq!(
            [helper, long, silent].map(|helper| helper.complaint()),
            [
                "PROGRAM failed to give a password for registry.example:5000: \\u{1b}[31mlocked"
                    .to_owned(),
                format!(
                    "PROGRAM failed to give a password for registry.example:5000: {}",
                    "0".repeat(200)
                ),
                "PROGRAM failed to give a password for registry.example:5000".to_owned()
            ]
        );
    }

    #[test]
    fn what_is_no_answer_is_not_shown() {
        for script in [
            "echo hunter2",
            "echo '[\"hunter2\"]'",
            r#"echo '{"Username": "hunter2"}'"#,
            "while :; do echo hunter2; done",
            "while :; do echo hunter2 >&2; done",
        ] {
            assert_eq!(
                Written::new(script).complaint(),
                "PROGRAM answered something that is not a name and a password",
                "{script}"
            );
        }
    }

    #[test]
    fn a_helper_that_does_not_answer_is_ended() {
        for script in ["exec sleep 60", "exec >&- 2>&-; exec sleep 60"] {
            let begin = Instant::now();
            let error = Written::new(script).ask_within(Duration::from_millis(200)).unwrap_err();
            assert!(
                error.to_string().contains("did not answer") && begin.elapsed() < LONG / 2,
                "{script}: {error}"
            );
        }
    }

    #[test]
    fn who_is_left_behind_by_a_helper_is_not_waited_for() {
        let helper = Written::new(r#"sleep 3 & echo '{"Username": "me", "Secret": "pw"}'"#);
        let begin = Instant::now();
        let found = helper.ask().unwrap();
        assert!(found.is_some() && begin.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn a_helper_that_cannot_be_started_is_an_error() {
        let helper = Written::new("");
        fs::write(helper.program(), "#!/nonexistent/shell\n").unwrap();
        assert_eq!(helper.complaint(), "cannot run PROGRAM");
    }

    #[test]
    fn a_helper_is_found_where_programs_are() {
        let helper = Written::new("");
        let other = tempfile::tempdir().unwrap();
        fs::write(other.path().join("docker-credential-test"), "no program").unwrap();
        let directories = [".", "/nonexistent"].map(PathBuf::from);
        let directories: Vec<PathBuf> = directories
            .into_iter()
            .chain([other.path().to_owned(), helper.directory.path().to_owned()])
            .collect();
        let found = |name| find(&program_named(name).unwrap(), &directories);
        assert_eq!((found("test"), found("none")), (Some(helper.program()), None));
    }
}
