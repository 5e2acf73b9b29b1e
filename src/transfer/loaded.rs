//! Which NIXL and which UCX an agent loaded, as an answer about its container: other checks judge what the interpreter
//! really takes, and not what else is installed.

use super::record::EndRecord;
use super::ucx_text;
use std::fmt::Write as _;

/// The text of [`crate::ask::TRANSFER_SOFTWARE`]; none where no agent came up.
pub fn software(end: &EndRecord) -> Option<String> {
    let ready = end.ready.as_ref()?;
    let mut out = String::new();
    // `SITE/nixl/_api.py`
    let file = ready.nixl_file.as_deref().filter(|f| f.starts_with('/'));
    let site = file.and_then(|file| file.rsplitn(3, '/').nth(2));
    if let Some(site) = site {
        for (name, version) in &ready.dist {
            if name.starts_with("nixl") {
                let _ = writeln!(out, "{site}/{}-{version}.dist-info", name.replace('-', "_"));
            }
        }
    }
    for path in &ready.libs {
        let _ = writeln!(out, "{path}");
    }
    if let Some(version) = ucx_text::read(&end.log.lane).version {
        let _ = writeln!(out, "UCX {version}");
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::protocol::Ready;

    #[test]
    fn what_an_agent_loaded_is_an_answer_about_its_container() {
        let mut end = EndRecord::default();
        assert_eq!(software(&end), None);
        end.ready = Some(Ready {
            nixl_file: Some("/v/site-packages/nixl_cu12/_api.py".into()),
            dist: [
                ("nixl-cu12".into(), "1.5.1".into()),
                ("numpy".into(), "2".into()),
            ]
            .into(),
            libs: vec!["/v/site-packages/nixl_cu12.libs/libucp-1a.so.0".into()],
            ..Ready::default()
        });
        end.log.lane = "[1.0] [h:1:0] ucp_context.c:2753 UCX  INFO  Version 1.23.0 (loaded from /v/libucp.so)\n".to_owned();
        let text = software(&end).unwrap();
        assert_eq!(
            text,
            "/v/site-packages/nixl_cu12-1.5.1.dist-info\n/v/site-packages/nixl_cu12.libs/libucp-1a.so.0\nUCX 1.23.0\n"
        );
    }
}
