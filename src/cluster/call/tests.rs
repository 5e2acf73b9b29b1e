//! Tests of one call: what is tried again, and the words of each fault.

use super::*;
use rustls::CertificateError;
use std::io;

fn api(code: u16, retry_after: u32) -> kube::Error {
    let details = serde_json::json!({"retryAfterSeconds": retry_after});
    let status = serde_json::json!({"code": code, "message": "m\u{1b}[2J", "details": details});
    kube::Error::Api(serde_json::from_value(status).unwrap())
}

#[test]
fn only_not_now_is_tried_again() {
    assert!(pause(&api(403, 0), 1).is_none());
    assert!(pause(&api(500, 0), 1).is_none());
    assert_eq!(pause(&api(429, 1), 1), Some(Duration::from_secs(1)));
    assert_eq!(pause(&api(503, 3600), 1), Some(LONGEST_PAUSE));
    assert!(pause(&api(429, 1), TRIES).is_none());
}

#[test]
fn a_name_cannot_lead_elsewhere() {
    assert_eq!(check_names(&["llm", "decode-0.a"]), Ok(()));
    for bad in [
        "",
        ".",
        "..",
        "../secrets/x",
        "a/b",
        "a?x=y",
        "a%2fb",
        "A",
        "a b",
        "-a",
    ] {
        assert!(check_names(&["llm", bad]).is_err(), "{bad}");
    }
}

#[test]
fn a_tls_fault_is_found_inside_an_io_error() {
    let tls = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
    let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, tls));
    let error = kube::Error::Service(Box::new(wrapped));
    assert_eq!(Cause::from(&error), Cause::Tls(TlsFault::UnknownIssuer));
}

#[test]
fn a_process_without_descriptors_blames_no_server() {
    let error = |code| {
        let inner = io::Error::other(io::Error::from_raw_os_error(code));
        Cause::from(&kube::Error::Service(Box::new(inner)))
    };
    assert_eq!(error(24), Cause::NoDescriptors);
    assert_eq!(error(23), Cause::NoDescriptors);
    assert!(matches!(error(111), Cause::Unreachable { .. }));
}

#[test]
fn credentials_in_urls_are_masked() {
    for (text, shown) in [
        (
            "at http://admin:hunter2@127.0.0.1:1/k8s?access_token=t0p: refused",
            "at http://***@127.0.0.1:1/k8s?***: refused",
        ),
        (
            "proxy socks9://u:p@ss@h:1 and \"https://t0k@x\" no",
            "proxy socks9://***@h:1 and \"https://***@x\" no",
        ),
        ("https://10.0.0.1:6443/a/b", "https://10.0.0.1:6443/a/b"),
        ("http://h:1/a@b", "http://h:1/a@b"),
        ("http://h/a@b", "http://h/a@b"),
        ("http://u:p/w@h/c", "http://***@h/c"),
        ("http://u:p@h/a@b", "http://***@b"),
        ("ann@example.org?", "ann@example.org?"),
    ] {
        assert_eq!(said(text), shown.replace("?***: ", "?*** "));
    }
}

#[test]
fn words_from_the_server_cannot_act_on_a_terminal() {
    let Cause::Answer { said, .. } = Cause::from(&api(500, 0)) else {
        panic!("an answer");
    };
    assert_eq!(said, "m\\u{1b}[2J");
}
