// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What was found, and what it means.

use cabane_process::installation;
use cabane_site::Remedy;
use serde::Serialize;

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// Not there, and nothing is wrong with that.
    Off,
    /// Works, with a remark.
    Note,
    /// Broken, or the reason why nothing can be mounted.
    Problem,
}

impl State {
    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Off => "off",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

/// What findings are about, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// The ways to mount, and what each needs.
    Ways,
    /// What the kernel can do.
    Kernel,
    /// Images that are kept mounted, and namespaces that processes share.
    Held,
    /// Configuration files and repositories.
    Configuration,
    /// The environment of this process.
    Environment,
    /// Programs that builds use.
    Tools,
}

impl Group {
    /// Returns the headline.
    pub fn title(self) -> &'static str {
        match self {
            Self::Ways => "ways to mount",
            Self::Kernel => "kernel",
            Self::Held => "held images and shared namespaces",
            Self::Configuration => "configuration and repositories",
            Self::Environment => "environment",
            Self::Tools => "tools for building",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about.
    pub group: Group,
    /// What was looked at.
    pub name: String,
    /// How it is.
    pub state: State,
    /// What was found.
    pub found: String,
    /// Why it is so, where that needs saying.
    pub cause: Option<String>,
    /// A command that fixes it.
    pub command: Option<String>,
    /// What it is for.
    pub purpose: &'static str,
    /// Whether it alone makes a way to mount impossible.
    #[serde(skip)]
    pub blocks: bool,
}

/// Something that is looked at: a row in the table of checks.
pub(crate) struct Check {
    /// What it is about.
    pub(crate) group: Group,
    /// What is looked at.
    pub(crate) name: &'static str,
    /// What it is for.
    pub(crate) purpose: &'static str,
}

impl Check {
    /// Makes a finding without cause and command.
    pub(crate) fn finding(&self, state: State, found: impl Into<String>) -> Finding {
        Finding {
            group: self.group,
            name: self.name.to_owned(),
            state,
            found: found.into(),
            cause: None,
            command: None,
            purpose: self.purpose,
            blocks: false,
        }
    }

    pub(crate) fn ok(&self, found: impl Into<String>) -> Finding {
        self.finding(State::Ok, found)
    }

    pub(crate) fn off(&self, found: impl Into<String>) -> Finding {
        self.finding(State::Off, found)
    }

    pub(crate) fn note(&self, found: impl Into<String>) -> Finding {
        self.finding(State::Note, found)
    }

    pub(crate) fn problem(&self, found: impl Into<String>) -> Finding {
        self.finding(State::Problem, found)
    }
}

impl Finding {
    /// Says why.
    pub(crate) fn because(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Says what can be typed.
    pub(crate) fn fixed_by(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// The problem is gone when this program is installed.
    pub(crate) fn fixed_by_installing(mut self, program: &str) -> Self {
        self.command = installation::command(program);
        self
    }

    /// The problem is gone when a part of Cabane is installed, or installed again.
    pub(crate) fn fixed_by_remedy(mut self, remedy: &Remedy) -> Self {
        self.command.clone_from(&remedy.command);
        let texts = [self.cause.take(), remedy.remark.clone()];
        let texts: Vec<String> = texts.into_iter().flatten().collect();
        self.cause = (!texts.is_empty()).then(|| texts.join("; "));
        self
    }

    /// Says which one of several things was looked at.
    pub(crate) fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Says that nothing can be mounted in one way because of it.
    pub(crate) fn blocking(mut self) -> Self {
        self.blocks = true;
        self
    }
}

/// A way to mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Way {
    /// Its name, as `--backend` has it.
    pub name: &'static str,
    /// Whether it was seen to work.
    pub works: bool,
    /// Why not.
    pub reason: Option<String>,
}

/// What `--backend auto` would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// The way it would take for an image at one of the usual mount points.
    pub backend: &'static str,
    /// Whether that works.
    pub works: bool,
    /// Which way is taken for which images.
    pub explanation: String,
}

/// Everything that is reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The version of the command.
    pub version: &'static str,
    /// Whether something can be mounted and nothing is broken.
    pub healthy: bool,
    /// What would be chosen.
    pub choice: Choice,
    /// The ways.
    pub ways: Vec<Way>,
    /// Everything that was looked at.
    pub findings: Vec<Finding>,
}
