// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which channel was typed.

use cabane_label::{ChannelName, ChannelPattern, LabelPattern, Namespace, SystemPattern};
use cabane_registry::ChannelPlace;
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;
use cabane_site::settings::ChannelSetting;

/// Returns the channel that the tag of a label names: the configuration has a channel of that name
/// for the namespace. `None` if the tag is an ordinary one.
///
/// # Errors
///
/// The system is unknown.
pub fn channel_of<'c>(
    context: &'c Context,
    namespace: &Namespace,
    pattern: &LabelPattern,
) -> Result<Option<(&'c ChannelSetting, ChannelPlace)>> {
    let Some(tag) = &pattern.tag else {
        return Ok(None);
    };
    let is_meant = |one: &&ChannelSetting| one.name.is_tag(tag) && one.namespace == *namespace;
    let Some(setting) = context.settings.channels.iter().find(is_meant) else {
        return Ok(None);
    };
    let system = match &pattern.system {
        Some(SystemPattern::Is(system)) => Some(system.clone()),
        Some(SystemPattern::Any) => None,
        None => context.system(),
    };
    let system = system.ok_or_else(|| no_system(&setting.name))?;
    let name = setting.name.clone();
    Ok(Some((setting, ChannelPlace { namespace: namespace.clone(), name, system })))
}

/// Returns the channel that was typed, and how it is configured.
///
/// # Errors
///
/// The configuration has none of that name, or the system is unknown.
pub fn place_of<'c>(
    context: &'c Context,
    typed: &ChannelPattern,
) -> Result<(&'c ChannelSetting, ChannelPlace)> {
    let namespace = typed.namespace.as_ref();
    let namespace = namespace.unwrap_or(&context.settings.registry.namespace.value);
    let setting = setting_of(context, namespace, &typed.name)?;
    let system = typed.system.clone().or_else(|| context.system());
    let system = system.ok_or_else(|| no_system(&typed.name))?;
    let name = typed.name.clone();
    Ok((setting, ChannelPlace { namespace: namespace.clone(), name, system }))
}

/// Returns how a channel is configured.
///
/// # Errors
///
/// It is not.
pub fn setting_of<'c>(
    context: &'c Context,
    namespace: &Namespace,
    name: &ChannelName,
) -> Result<&'c ChannelSetting> {
    let is_meant = |one: &&ChannelSetting| one.name == *name && one.namespace == *namespace;
    context.settings.channels.iter().find(is_meant).ok_or_else(|| {
        let message = format!("the configuration has no channel {namespace}::{name}");
        Report::new(Kind::NotFound, message).hinted(format!(
            "add to config.toml:\n  [[channel]]\n  name = \"{name}\"\n  \
             namespace = \"{namespace}\"\n  keys = [\"FILE.pub\"]"
        ))
    })
}

fn no_system(name: &ChannelName) -> Report {
    Report::new(Kind::Usage, format!("the system of the channel {name} is unknown"))
        .hinted(format!("name it, as in `{name}@daint`, or use `--system`"))
}
