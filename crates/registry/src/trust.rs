// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whose certificates are trusted: those the system trusts, and those of a file that the site
//! names, for a registry that only the site knows.
//!
//! The certificates of the system are found by rustls-native-certs, which also follows
//! `SSL_CERT_FILE` and `SSL_CERT_DIR`, as OpenSSL does.

use std::fs::File;
use std::path::Path;

use cabane_label::{escape, shown};
use cabane_report::{Kind, Report, Result};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use ureq::tls::{Certificate, PemItem, RootCerts, parse_pem};

use crate::files::{read_up_to, unreadable};

/// The bundles of whole systems have less than a megabyte.
const MOST_BYTES: u64 = 16 << 20;

/// Returns the certificates of the system, and every one in the file that the site names.
///
/// Reads some hundred kilobytes, and is an error on a system without any certificates: to be
/// called once, and only by who is about to use TLS.
pub(crate) fn roots(extra: Option<&Path>) -> Result<RootCerts> {
    let mut roots = extra.map(certificates_of).transpose()?.unwrap_or_default();
    let system = rustls_native_certs::load_native_certs();
    let owned = |certificate| Certificate::from_der(certificate).to_owned();
    roots.extend(system.certs.iter().map(|certificate| owned(certificate)));
    if roots.is_empty() {
        let reason = system.errors.first().map(|error| format!(": {}", escape(&error.to_string())));
        let reason = reason.unwrap_or_default();
        let message = format!("no CA certificates found on this system{reason}");
        return Err(Report::new(Kind::Failure, message).hinted(
            "install the package `ca-certificates`, or name a file with `SSL_CERT_FILE`".to_owned(),
        ));
    }
    Ok(RootCerts::from(roots))
}

/// Reads a file of certificates. All must be good: who names a file wants what is in it.
fn certificates_of(path: &Path) -> Result<Vec<Certificate<'static>>> {
    let pem = read(path)?;
    let path = shown(path);
    let refused = |message| {
        let hint = format!("`openssl storeutl -noout -text -certs {path}` shows what is in it");
        Report::new(Kind::Failure, message).hinted(hint)
    };
    let bad = |number: usize| refused(format!("certificate {number} in {path} cannot be used"));
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        let number = certificates.len() + 1;
        match item {
            Ok(PemItem::Certificate(certificate)) => {
                // What would otherwise be passed over in silence when a connection is made.
                let added = RootCertStore::empty().add(CertificateDer::from(certificate.der()));
                added.map_err(|_| bad(number))?;
                certificates.push(certificate);
            }
            // A key has no business there, but does no harm.
            Ok(_) => {}
            Err(_) => return Err(bad(number)),
        }
    }
    if certificates.is_empty() {
        return Err(refused(format!("{path} has no certificate in the form PEM")));
    }
    Ok(certificates)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = unreadable("the certificates ", path);
    let file = File::open(path).map_err(&failed)?;
    read_up_to(MOST_BYTES, file).map_err(failed)?.ok_or_else(|| {
        let message = format!("{} has more than {MOST_BYTES} bytes, and is not read", shown(path));
        Report::new(Kind::Failure, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBdDCCARugAwIBAgIUUZhasFKlqOlsAjQq7RM2XFm4/ZYwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEVGVzdDAgFw0yNjExMjEyMTI3MzVaGA8yMTI2MTAyODIxMjcz
NVowDzENMAsGA1UEAwwEVGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABOsk
bELmqq5BkxSOf3Gf/1DQZroCiTmSAZ2xn6m8WNVpxi3So7U9rqSYrXSqtzM/2isf
R11mgOOqsx8YgagJxqKjUzBRMB0GA1UdDgQWBBRDJgaCi0YfU1J329XuyfeHXbRp
mTAfBgNVHSMEGDAWgBRDJgaCi0YfU1J329XuyfeHXbRpmTAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0cAMEQCIC/CstXUpzWfYy6UUwc2OyfMwuy4XNZ/DewI
qX2EveSjAiAxQKS7IldFaD4nw1k/d7qh5E/61wxQIzxvQY/ZWjF95Q==
-----END CERTIFICATE-----
";

    /// How many certificates there are in a text, or why none is taken.
    fn read_from(text: &str) -> Result<usize, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("site.pem");
        fs::write(&path, text).unwrap();
        match certificates_of(&path) {
            Ok(certificates) => Ok(certificates.len()),
            Err(error) => Err(error.to_string().replace(&*path.to_string_lossy(), "FILE")),
        }
    }

    #[test]
    fn every_certificate_of_a_file_is_trusted() {
        let text = format!("Issued to: us\n\n{CERTIFICATE}\n# and once more\n{CERTIFICATE}");
        assert_eq!(read_from(&text), Ok(2));
    }

    #[test]
    fn what_the_site_names_comes_to_what_the_system_trusts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("site.pem");
        fs::write(&path, CERTIFICATE).unwrap();
        let RootCerts::Specific(trusted) = roots(Some(&path)).unwrap() else {
            panic!("the roots are not a list");
        };
        let of_system = rustls_native_certs::load_native_certs().certs.len();
        assert_eq!(trusted.len(), of_system + 1);
    }

    #[test]
    fn a_file_without_certificates_is_an_error() {
        let none = Err("FILE has no certificate in the form PEM".to_owned());
        for text in ["", "words\n", "-----BEGIN SOMETHING-----\nYQ==\n-----END SOMETHING-----\n"] {
            assert_eq!(read_from(text), none, "{text:?}");
        }
    }

    #[test]
    fn a_damaged_certificate_is_named_by_its_number() {
        let second = Err("certificate 2 in FILE cannot be used".to_owned());
        let unfinished = CERTIFICATE.lines().next().unwrap().to_owned() + "\n";
        let wrong_inside = CERTIFICATE.replace("MIIBdDCC", "MIIBdDCD");
        for damaged in [unfinished, wrong_inside] {
            let text = format!("{CERTIFICATE}{damaged}");
            assert_eq!(read_from(&text), second, "{damaged}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error() {
        let error = roots(Some(Path::new("/nonexistent/site.pem"))).unwrap_err();
        assert_eq!(error.to_string(), "cannot read the certificates /nonexistent/site.pem");
    }
}
