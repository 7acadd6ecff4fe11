// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Signed statements and OpenSSL: each verifies what the other has signed.

use cabane_testkit::{Finished, needs};
use serde_json::Value;

use crate::cabane::{APP, Who};
use crate::channels::Bed;

/// What an envelope signs, as the specification of DSSE says it; and an envelope with another signature.
const ENVELOPE: &str = r"
import base64, json, sys

task, path = sys.argv[1:3]
bundle = json.load(open(path))
envelope = bundle['dsseEnvelope']
kind, payload = envelope['payloadType'].encode(), base64.b64decode(envelope['payload'])
if task == 'signed':
    text = b'DSSEv1 %d %s %d %s' % (len(kind), kind, len(payload), payload)
    open(sys.argv[3], 'wb').write(text)
    open(sys.argv[4], 'wb').write(base64.b64decode(envelope['signatures'][0]['sig']))
elif task == 'put':
    signature = open(sys.argv[3], 'rb').read()
    envelope['signatures'] = [{'keyid': '', 'sig': base64.b64encode(signature).decode()}]
    json.dump(bundle, open(sys.argv[4], 'w'))
elif task == 'change':
    key, old, new = sys.argv[3:6]
    if key == 'payload':
        payload = payload.replace(old.encode(), new.encode())
        envelope['payload'] = base64.b64encode(payload).decode()
    else:
        envelope[key] = new
    json.dump(bundle, open(sys.argv[6], 'w'))
";

struct Statement {
    bed: Bed,
    directory: String,
    /// The file of the signed results of the checks.
    file: String,
}

impl Statement {
    /// An image was tested, and what the tester signed is in a file. OpenSSL has a key that counts, too.
    fn new() -> Self {
        let testers = "[evidence]\ntesters = [\"KEY.pub\", \"OPENSSL.pub\"]";
        let bed = Bed::new(Who::OrdinaryUser, "", "");
        let directory = bed.shared.cabane.world.path("work").display().to_string();
        let testers = testers.replace("OPENSSL", &format!("{directory}/other"));
        let statement = Self { file: String::new(), directory, bed };
        statement.openssl("ecparam -name prime256v1 -genkey -noout -out other.ec");
        statement.openssl("pkcs8 -topk8 -nocrypt -in other.ec -out other");
        statement.openssl("ec -in other.ec -pubout -out other.pub");
        let bed = &statement.bed;
        bed.configure("", &testers);
        bed.run(&["check", APP, "--key", &bed.key]).success();
        let exported = format!("{}/exported", statement.directory);
        let written = bed.run(&["evidence", "export", APP, "--output", &exported]).success();
        let name = written.stdout.trim().rsplit('/').next().unwrap().to_owned();
        let file = format!("exported/{name}");
        Self { file, ..statement }
    }

    fn openssl(&self, words: &str) -> Finished {
        let mut command = self.bed.shared.cabane.other("openssl");
        command.current_dir(&self.directory).args(words.split(' '));
        self.bed.shared.cabane.finish(&mut command)
    }

    fn python(&self, words: &[&str]) {
        let mut command = self.bed.shared.cabane.other("python3");
        command.current_dir(&self.directory).args(["-c", ENVELOPE]).args(words);
        self.bed.shared.cabane.finish(&mut command).success();
    }

    /// What counts of a file that is attached to the image: exit code and answer.
    fn attached(&self, name: &str) -> (i32, String) {
        let file = format!("{}/{name}", self.directory);
        let attached = self.bed.run(&["evidence", "attach", APP, &file]);
        let verified = self.bed.run(&["evidence", "verify", APP, "--remote"]);
        (verified.code, format!("{}{}{}", attached.stderr, verified.stdout, verified.stderr))
    }
}

#[test]
fn openssl_verifies_what_was_signed_here() {
    needs!("docker-registry");
    let key = |statement: &Statement| format!("{}.pub", statement.bed.key);
    let statement = Statement::new();
    let verify = |key: &str| {
        statement.openssl(&format!("dgst -sha256 -verify {key} -signature signature text"))
    };
    statement.python(&["signed", &statement.file, "text", "signature"]);
    verify(&key(&statement)).success();
    assert_ne!(verify("other.pub").code, 0);
}

#[test]
fn what_openssl_signs_counts_and_what_was_changed_does_not() {
    needs!("docker-registry");
    let statement = Statement::new();
    assert_eq!(statement.bed.run(&["evidence", "verify", APP, "--remote"]).code, 18);
    let changes: [[&str; 3]; 3] = [
        ["payload", "x86_64", "x86_65"],
        ["payload", "\"system\":\"here\"", "\"system\":\"there\""],
        ["payloadType", "", "application/json"],
    ];
    for [key, old, new] in changes {
        statement.python(&["change", &statement.file, key, old, new, "changed"]);
        let (code, said) = statement.attached("changed");
        assert_ne!(code, 0, "{key} {old}: {said}");
    }
    statement.python(&["signed", &statement.file, "text", "signature"]);
    statement.openssl("dgst -sha256 -sign other -out theirs text").success();
    statement.python(&["put", &statement.file, "theirs", "signed-by-openssl"]);
    let (code, said) = statement.attached("signed-by-openssl");
    assert_eq!(code, 0, "{said}");
    let listed = statement.bed.run(&["evidence", "ls", APP, "--remote", "--json"]).success();
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let text = listed.to_string();
    assert!(text.contains("other.pub"), "{text}");
}
