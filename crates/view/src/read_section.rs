// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From the section `cabane` of an `env.json` to what an image needs of the system, and what a
//! root image says about itself.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cabane_label::{MountPoint, ParseError, escape};
use serde_json::value::RawValue;

use crate::document::Member;
use crate::read::Reader;
use crate::{
    Container, ContainerSource, ImageBase, InterpreterNeed, LibraryNeed, MetaError, MpiNeed, Needs,
    OutsideNeed, ProcessorNeed,
};

const TEXTS: &str = "a list of texts";

/// The most images on which one can be built.
const MOST_BASES: usize = 32;

impl<'a> Reader<'a> {
    pub(crate) fn needs(&self, value: &'a RawValue) -> Result<Needs, MetaError> {
        let mut needs = Needs::default();
        for Member { key, value, .. } in self.members(value, &"`needs`")? {
            match key.as_str() {
                "interpreter" => needs.interpreter = Some(self.interpreter(value)?),
                "glibc" => needs.glibc = Some(self.text(value, &"`glibc`")?),
                "architectures" => {
                    needs.architectures = self.document.read(value, &"`architectures`", TEXTS)?;
                }
                "processor" => needs.processor = Some(self.processor(value)?),
                "mpi" => needs.mpi = Some(self.mpi(value)?),
                "libraries" => needs.libraries = self.libraries(value)?,
                "search-paths" => {
                    needs.search_paths = self.document.read(value, &"`search-paths`", TEXTS)?;
                }
                "outside" => needs.outside = self.outside(value)?,
                _ => {}
            }
        }
        Ok(needs)
    }

    pub(crate) fn bases(&self, value: &'a RawValue) -> Result<Vec<ImageBase>, MetaError> {
        let what = "`bases`";
        let listed: Vec<&'a RawValue> = self.document.read(value, &what, "a list")?;
        if listed.len() > MOST_BASES {
            return Err(self.document.error(value, format!("more than {MOST_BASES} bases")));
        }
        let one = |value: &'a RawValue| {
            let text = |key: &'static str| -> Result<(String, &'a RawValue), MetaError> {
                let value = self.member(value, what, key)?;
                Ok((self.text(value, &format_args!("`{key}` of `bases`"))?, value))
            };
            let refuse = |value, error: ParseError| self.document.error(value, error.to_string());
            let (label, _) = text("label")?;
            let (digest, place) = text("digest")?;
            let digest = digest.parse().map_err(|error| refuse(place, error))?;
            let (mount, place) = text("mount")?;
            let mount = MountPoint::below_root(&mount).map_err(|error| refuse(place, error))?;
            Ok(ImageBase { label, digest, mount })
        };
        listed.into_iter().map(one).collect()
    }

    fn processor(&self, value: &'a RawValue) -> Result<ProcessorNeed, MetaError> {
        let mut need = ProcessorNeed::default();
        for Member { key, value, .. } in self.members(value, &"`processor`")? {
            let list = || self.document.read(value, &format_args!("`{key}` of `processor`"), TEXTS);
            match key.as_str() {
                "targets" => need.targets = list()?,
                "features" => need.features = list()?,
                _ => {}
            }
        }
        Ok(need)
    }

    fn mpi(&self, value: &'a RawValue) -> Result<MpiNeed, MetaError> {
        let mut need = MpiNeed::default();
        for Member { key, value, .. } in self.members(value, &"`mpi`")? {
            if key == "srun" {
                need.srun = self.document.read(value, &"`srun` of `mpi`", TEXTS)?;
            }
        }
        Ok(need)
    }

    fn libraries(&self, value: &'a RawValue) -> Result<Vec<LibraryNeed>, MetaError> {
        let what = "`libraries`";
        let listed: Vec<&'a RawValue> = self.document.read(value, &what, "a list")?;
        let one = |value: &'a RawValue| {
            let mut need = LibraryNeed {
                name: self.text(self.member(value, what, "name")?, &"`name` of `libraries`")?,
                versions: Vec::new(),
            };
            for Member { key, value, .. } in self.members(value, &what)? {
                if key == "versions" {
                    need.versions =
                        self.document.read(value, &"`versions` of `libraries`", TEXTS)?;
                }
            }
            Ok(need)
        };
        listed.into_iter().map(one).collect()
    }

    fn outside(&self, value: &'a RawValue) -> Result<Vec<OutsideNeed>, MetaError> {
        let what = "`outside`";
        let listed: Vec<&'a RawValue> = self.document.read(value, &what, "a list")?;
        let one = |value: &'a RawValue| {
            let written = self.member(value, what, "path")?;
            let path = self.absolute_path(written, "`path` of `outside`")?;
            let members = self.members(value, &what)?;
            let package = members.iter().find(|member| member.key == "package");
            let package = package.map(|member| self.text(member.value, &"`package` of `outside`"));
            Ok(OutsideNeed { path, package: package.transpose()? })
        };
        listed.into_iter().map(one).collect()
    }

    fn interpreter(&self, value: &'a RawValue) -> Result<InterpreterNeed, MetaError> {
        let what = "`interpreter`";
        let path = self.member(value, what, "path")?;
        let version = self.member(value, what, "version")?;
        Ok(InterpreterNeed {
            path: self.absolute_path(path, "`path` of `interpreter`")?,
            version: self.text(version, &"`version` of `interpreter`")?,
        })
    }

    /// Returns the value of a key that must be there.
    fn member(
        &self,
        value: &'a RawValue,
        what: &str,
        key: &'static str,
    ) -> Result<&'a RawValue, MetaError> {
        let members = self.members(value, &what)?;
        let found = members.iter().find(|member| member.key == key);
        let reason = || format!("{} lacks `{key}`", escape(what));
        found.map(|member| member.value).ok_or_else(|| self.document.error(value, reason()))
    }

    fn absolute_path(&self, value: &'a RawValue, what: &str) -> Result<PathBuf, MetaError> {
        let path = self.plain_text(value, what)?;
        if !path.starts_with('/') {
            return Err(self.document.wrong_type(value, &what, "an absolute path"));
        }
        Ok(PathBuf::from(path))
    }

    pub(crate) fn container(&self, value: &'a RawValue) -> Result<Container, MetaError> {
        let mut container = Container::default();
        for Member { key, value, .. } in self.members(value, &"`container`")? {
            let what = format!("`{key}` of `container`");
            let text = || self.plain_text(value, &what).map(Some);
            let texts = || {
                let texts: Vec<String> = self.document.read(value, &what, TEXTS)?;
                texts.iter().try_for_each(|text| self.check_nul(text, value, &what))?;
                Ok(texts)
            };
            match key.as_str() {
                "entrypoint" => container.entrypoint = texts()?,
                "command" => container.command = texts()?,
                "working-directory" => {
                    container.working_directory = text()?;
                    self.absolute_path(value, "`working-directory` of `container`")?;
                }
                "user" => container.user = text()?,
                "labels" => container.labels = self.labels(value)?,
                "glibc" => container.glibc = text()?,
                "source" => container.source = Some(self.container_source(value)?),
                _ => {}
            }
        }
        Ok(container)
    }

    fn labels(&self, value: &'a RawValue) -> Result<BTreeMap<String, String>, MetaError> {
        let members = self.members(value, &"`labels`")?.into_iter();
        let label = |Member { key, value, .. }: Member<'a>| {
            let text = self.text(value, &format_args!("label `{key}`"))?;
            Ok((key, text))
        };
        members.map(label).collect()
    }

    fn container_source(&self, value: &'a RawValue) -> Result<ContainerSource, MetaError> {
        let mut source = ContainerSource::default();
        for Member { key, value, .. } in self.members(value, &"`source`")? {
            let text = || self.plain_text(value, &format!("`{key}` of `source`"));
            match key.as_str() {
                "reference" => source.reference = text()?,
                "platform" => source.platform = text()?,
                "manifest" => source.manifest = Some(text()?),
                "index" => source.index = Some(text()?),
                "configuration" => source.configuration = Some(text()?),
                _ => {}
            }
        }
        Ok(source)
    }

    fn plain_text(&self, value: &'a RawValue, what: &str) -> Result<String, MetaError> {
        let text = self.text(value, &what)?;
        self.check_nul(&text, value, &what)?;
        Ok(text)
    }
}
