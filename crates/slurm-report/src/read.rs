// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From files and directories to lines.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use cabane_label::shown;
use cabane_report::{IoContext, Result};

use crate::record::BrokenRecord;
use crate::tally::Tally;

/// A record has 4 KiB at most, and a log daemon puts little before it. More of a line is not
/// kept.
const LONGEST: usize = 16 * 1024;
const BUFFER: usize = 256 * 1024;

/// Counts the records in files, in the files of directories, and, for `-`, on standard input.
///
/// # Errors
///
/// A file cannot be read. Lines that are no records are counted.
pub fn read(paths: &[PathBuf]) -> Result<Tally> {
    let mut tally = Tally::default();
    for path in paths {
        let name = shown(path);
        if path == Path::new("-") {
            let lines = &mut BufReader::with_capacity(BUFFER, io::stdin());
            read_lines(lines, "-", &mut tally).or_failed(|| "read standard input".to_owned())?;
        } else {
            read_path(path, &mut tally).or_failed(|| format!("read {name}"))?;
        }
    }
    Ok(tally)
}

fn read_path(path: &Path, tally: &mut Tally) -> io::Result<()> {
    if !path.is_dir() {
        let mut lines = BufReader::with_capacity(BUFFER, File::open(path)?);
        return read_lines(&mut lines, &shown(path), tally);
    }
    let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        // A link may lead back.
        let kind = entry.file_type()?;
        if kind.is_file() || kind.is_dir() {
            read_path(&entry.path(), tally)?;
        }
    }
    Ok(())
}

/// Reads line after line into one buffer.
pub(crate) fn read_lines(
    lines: &mut impl BufRead,
    name: &str,
    tally: &mut Tally,
) -> io::Result<()> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let most = LONGEST as u64;
        lines.by_ref().take(most).read_until(b'\n', &mut line)?;
        let place = || (name.to_owned(), number);
        if line.is_empty() {
            break;
        }
        if line.ends_with(b"\n") || line.len() < LONGEST {
            if !line.trim_ascii().is_empty() {
                tally.add_line(&line, place);
            }
        } else {
            lines.skip_until(b'\n')?;
            tally.add_broken(BrokenRecord::TooLong, place);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Summary;

    pub(crate) fn record(kind: &str, node: &str, user: &str, more: &str) -> String {
        let digest = "ab".repeat(32);
        format!(
            "{{\"record\":\"{kind}\",\"version\":1,\"time\":\"2026-11-22T04:18:33.512Z\",\
             \"node\":\"{node}\",\"job\":4711,\"step\":\"0\",\"user\":\"{user}\",\"uid\":1001,\
             \"gid\":1001,\"nodes\":4,\"tasks\":32,{more},\
             \"images\":[{{\"digest\":\"{digest}\",\"path\":\"/r/{digest}\",\"mount_point\":\"/u\",\
             \"label\":\"app/1:v1@here%any\",\"views\":[]}}]}}\n"
        )
    }

    fn summary(text: &str) -> Summary {
        let mut tally = Tally::default();
        read_lines(&mut text.as_bytes(), "f", &mut tally).unwrap();
        Summary::new(&tally, None).unwrap()
    }

    #[test]
    fn uses_failures_and_exit_codes_are_summed_up() {
        let times = "\"mounted\":true,\"times_ms\":{\"lookup\":40.5,\"open\":1,\"mount\":3}";
        let failed = "\"mounted\":false,\"reason\":\"no room\"";
        let text = [
            record("cabane-step", "n1", "alice", times),
            record("cabane-step-end", "n1", "alice", "\"mounted\":true,\"exit_code\":3"),
            record("cabane-step", "n1", "bob", failed),
            record("cabane-node-failure", "n3", "bob", failed),
            record("cabane-node-failure", "n2", "bob", failed),
        ];
        let found = summary(&text.concat());
        let image = &found.images[0];
        assert_eq!((image.users, image.steps, image.unmounted, image.failed), (2, 2, 1, 1));
        assert_eq!(image.label.as_deref(), Some("app/1:v1@here%any"));
        let [failure] = found.failures.as_slice() else { panic!("{found:?}") };
        assert_eq!((failure.reason.as_str(), failure.nodes.as_str()), ("no room", "n[1-3]"));
        assert_eq!((failure.steps, failure.users.as_slice()), (1, &["bob".to_owned()][..]));
        assert_eq!((found.nodes[0].node.as_str(), found.nodes[0].times.max_ms), ("n1", 4.0));
        assert!((found.starts.lookup.unwrap().median_ms / 40.5 - 1.0).abs() < 0.05);
        assert_eq!(found.uses.len(), 2);
    }

    #[test]
    fn broken_lines_are_counted_and_named() {
        let whole = record("cabane-step", "n1", "alice", "\"mounted\":true");
        let cut = &whole[..200];
        let text = format!("{whole}nonsense\n\n{cut}\n{}\n{whole}{cut}", "x".repeat(40_000));
        let found = summary(&text);
        assert_eq!((found.counts.steps, found.counts.broken), (2, 4));
        let named: Vec<(u64, &str)> =
            found.broken.iter().map(|broken| (broken.line, broken.why.as_str())).collect();
        let malformed = "cut off or malformed";
        assert_eq!(named, [(2, "no record"), (4, malformed), (5, "too long"), (7, malformed)]);
    }

    #[test]
    fn other_versions_and_kinds_are_ignored_and_what_syslog_adds() {
        let whole = record("cabane-step", "n1", "alice", "\"mounted\":true");
        let text = format!(
            "{{\"record\":\"cabane-step\",\"version\":2,\"steps\":[]}}\n\
             {{\"record\":\"cabane-other\",\"version\":1}}\n\
             <30>Nov 22 04:18:33 n1 cabane[17]: {whole}"
        );
        let counts = summary(&text).counts;
        assert_eq!((counts.steps, counts.ignored, counts.broken), (1, 2, 0));
    }

    #[test]
    fn nodes_that_take_much_longer_than_most_are_slow() {
        let start = |node: &str, mount: u32| {
            let more = format!("\"mounted\":true,\"times_ms\":{{\"open\":0,\"mount\":{mount}}}");
            record("cabane-step", node, "alice", &more).repeat(5)
        };
        let nodes = [start("n1", 3), start("n2", 4), start("n3", 40), start("n4", 3)];
        let found = summary(&nodes.concat());
        let slow = found.nodes.iter().map(|node| (node.node.as_str(), node.is_slow));
        let expected = [("n3", true), ("n2", false), ("n1", false), ("n4", false)];
        assert_eq!(slow.collect::<Vec<_>>(), expected);
        assert!((found.usual_start().unwrap() - 3.0).abs() < 0.2);
    }
}
