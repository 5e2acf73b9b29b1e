//! Which values are not shown.

use super::lookup::find;
use super::variable::{Sensitivity, Variable};
use std::borrow::Cow;

/// Names of credentials, also as a part of a longer name (`lmcache.api_key`, `awsSecretAccessKey`). Written without
/// what separates words.
const NAMES: [&str; 19] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "credential",
    "authorization",
    "bearer",
    "apikey",
    "accesskey",
    "privatekey",
    "authkey",
    "accountkey",
    "sharedkey",
    "signingkey",
    "signature",
    "accesstoken",
    "authtoken",
    "sessiontoken",
];

/// Names of credentials only as a whole word: `pass` is one, `bypass` is none, and `max_tokens` counts tokens of text.
const WORDS: [&str; 15] = [
    "pass", "pwd", "pw", "auth", "oauth", "token", "sig", "sas", "jwt", "cred", "creds", "cookie",
    "psk", "passkey", "otp",
];

/// How keys of well-known services begin.
const BEGINNINGS: [&str; 16] = [
    "hf_",
    "sk-",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "nvapi-",
    "xoxb-",
    "xoxp-",
    "eyJ",
    "AKIA",
    "ASIA",
    "dckr_pat_",
    "dckr_oat_",
    "GOCSPX-",
];

/// A shorter text that begins like a key is an ordinary name.
const SHORTEST_KEY: usize = 16;

/// The value may hold credentials, so it is neither judged nor shown: an address with user information, or a name of a
/// credential, as a key of JSON or in the query of a URL. Ordinary values of the same variables are shown.
pub fn withheld(variable: &Variable, value: &str) -> bool {
    // No transport setting is an address of the web, but a person may have put one anywhere.
    let may = variable.sensitivity == Sensitivity::MayHoldCredentials
        || value.contains("://")
        || value.contains('?');
    may && holds_credentials(value)
}

/// [`withheld`] for a name that may not be in the catalogue; of such a variable nothing is known, so every value that
/// looks like credentials is withheld.
pub fn withheld_of(name: &str, value: &str) -> bool {
    match find(name) {
        Some(variable) => withheld(variable, value),
        None => holds_credentials(value),
    }
}

fn holds_credentials(value: &str) -> bool {
    let value = unescaped(value);
    has_user_information(&value) || pieces(&value).any(|p| names_a_secret(p) || is_a_key(p))
}

/// JSON may write any character as `\u0040`.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains("\\u") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split("\\u");
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let code = part.get(..4).and_then(|h| u32::from_str_radix(h, 16).ok());
        match code.and_then(char::from_u32) {
            Some(c) => {
                out.push(c);
                out.push_str(&part[4..]);
            }
            None => {
                out.push_str("\\u");
                out.push_str(part);
            }
        }
    }
    Cow::Owned(out)
}

/// An `@` is user information wherever it may be: before the host of a URL, or in an address without a scheme. Only
/// behind a complete authority (`redis://cache:6379/a@b`) is it a part of the path.
fn has_user_information(text: &str) -> bool {
    text.split(['"', '\'', ',', ';', ' ', '\t', '\n', '{', '}', '[', ']'])
        .any(|word| match word.split_once('@') {
            None => false,
            Some((before, _)) => match before.split_once("://") {
                None => true,
                Some((_, before)) => !ends_an_authority(before),
            },
        })
}

/// What stands between `://` and an `@` holds a whole authority without user information (`host/..`, `host:port?..`,
/// `[fd00::1]:port#..`; RFC 3986, section 3.2): the `@` is a part of the path or the query. A password may hold any sign that
/// was not written as it should be, so an authority that is none ends nothing.
pub(crate) fn ends_an_authority(before: &str) -> bool {
    let Some((authority, _)) = before.split_once(['/', '?', '#']) else {
        return false;
    };
    let (host, port) = match authority.strip_prefix('[').map(|a| a.split_once(']')) {
        Some(Some((address, port))) => (address, port.strip_prefix(':').unwrap_or(port)),
        Some(None) => return false,
        None => authority.rsplit_once(':').unwrap_or((authority, "")),
    };
    !host.contains('@') && port.bytes().all(|b| b.is_ascii_digit())
}

/// Looks at every word and not only at parsed keys: a value that a shell still has to expand is no JSON yet.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split([
        '"', '\'', '{', '}', '[', ']', ',', ';', ':', '=', '&', '?', '#', '\\', ' ', '\t', '\n',
    ])
}

/// The name of a credential, also as a part of a longer name.
pub(crate) fn names_a_secret(piece: &str) -> bool {
    let words = words_of(piece);
    let squeezed = words.concat();
    squeezed == "key"
        || NAMES.iter().any(|name| squeezed.contains(name))
        || words
            .iter()
            .map(|w| w.trim_matches(|c: char| c.is_ascii_digit()))
            .any(|w| WORDS.contains(&w))
}

/// A key of a well-known service. Some have no digit, but then they mix capitals and small letters.
pub(crate) fn is_a_key(piece: &str) -> bool {
    let has = |is: fn(&u8) -> bool| piece.bytes().any(|b| is(&b));
    piece.starts_with("-----BEGIN")
        || (piece.len() >= SHORTEST_KEY
            && (has(u8::is_ascii_digit)
                || (has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase)))
            && BEGINNINGS.iter().any(|b| piece.starts_with(b)))
}

/// `apiKey`, `api_key` and `API-KEY` are the same words.
fn words_of(key: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower_before = false;
    for c in key.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && lower_before) {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(last) = words.last_mut()
        {
            last.extend(c.to_lowercase());
        }
        lower_before = c.is_lowercase();
    }
    words.retain(|w| !w.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = "KV_TRANSFER_CONFIG";
    const ETCD: &str = "NIXL_ETCD_ENDPOINTS";

    #[test]
    fn credentials_are_withheld() {
        for (name, value) in [
            (
                JSON,
                r#"{"kv_connector_extra_config":{"lmcache.api_key":"x"}}"#,
            ),
            (JSON, r#"{"remote_url":"redis://me:hunter2@cache:6379"}"#),
            (JSON, r#"{"remote_url":"redis:\/\/me:hunter2@cache"}"#),
            (
                JSON,
                r#"{"remote_url":"redis://me:hunter2\u0040cache:6379"}"#,
            ),
            (JSON, r#"{"remote_url":"redis://me:hun/ter2@cache:6379"}"#),
            (JSON, r#"{"remote_url":"redis://me:hun,ter2@cache:6379"}"#),
            (JSON, r#"{"accessKey":"x"}"#),
            (JSON, r#"{"secretkey":"x"}"#),
            (JSON, r#"{"APIKEY":"x"}"#),
            (JSON, r#"{"api-key":"x"}"#),
            (JSON, r#"{"aws_secret_access_key":"x"}"#),
            (JSON, r#"{"s3Secret": $(SECRET)"#),
            (JSON, r#"{"pass":"x"}"#),
            (JSON, r#"{"redis_pass":"x"}"#),
            (JSON, r#"{"pass\u0077ord":"x"}"#),
            (JSON, r#"{"passwd":"x"}"#),
            (JSON, r#"{"auth":"x"}"#),
            (JSON, r#"{"auth":{"user":"a","b":"x"}}"#),
            (JSON, r#"{"credential":"x"}"#),
            (JSON, r#"{"headers":{"Authorization":"Basic x"}}"#),
            (JSON, r#"{"header":"Bearer x"}"#),
            (JSON, r#"{"url":"https://store/c?sv=1&sig=x"}"#),
            (JSON, r#"{"sas":"x"}"#),
            (JSON, r#"{"token2":"x"}"#),
            (JSON, r#"{"value":"hf_aBcDeFgHiJkLm0123"}"#),
            (JSON, "{'pass':'x'}"),
            (JSON, r#"{\"pass\":\"x\"}"#),
            (ETCD, "http://root@etcd:2379"),
            (ETCD, "root:pw@etcd:2379"),
            (ETCD, "root@etcd:2379"),
            (ETCD, "http://a:2379,root:pw@b:2379"),
            (ETCD, "http://etcd/?sig=x"),
            (ETCD, "http://etcd?access_key=x"),
            (ETCD, "http://etcd/?X-Amz-Signature=x"),
            (ETCD, "http://etcd/?key=x"),
            (ETCD, "http://etcd:2379;password=x"),
            (ETCD, "http://etcd/#access_token=x"),
            (ETCD, "http://root:p#w@etcd"),
            (ETCD, "http://root:p?w@etcd"),
            ("NIXL_TELEMETRY_EXPORTER", "otlp?authorization=x"),
            ("VLLM_NIXL_SIDE_CHANNEL_HOST", "x://me:hunter2@decode"),
            ("NCCL_DEBUG_FILE", "https://me:hunter2@logs/x"),
            ("UCX_LOG_FILE", "/tmp/x?token=x"),
            ("UCX_TLS", "tcp://user:password@host"),
        ] {
            let variable = find(name).expect("catalogued");
            assert!(withheld(variable, value), "{name}={value}");
            assert!(withheld_of(name, value) && withheld_of("UCX_NEW", value));
        }
    }

    #[test]
    fn ordinary_values_are_shown() {
        for (name, value) in [
            (
                JSON,
                r#"{"kv_connector":"NixlConnector","kv_role":"kv_both"}"#,
            ),
            (
                JSON,
                r#"{"kv_connector":"NixlConnector","kv_role":"kv_producer","engine_id":"decode-0","kv_rank":0,"kv_parallel_size":2,"kv_ip":"10.0.0.1","kv_port":14579,"kv_buffer_device":"cpu","kv_buffer_size":1e9,"kv_load_failure_policy":"fail","kv_connector_module_path":"my.module"}"#,
            ),
            (
                JSON,
                r#"{"kv_connector_extra_config":{"backends":["LIBFABRIC"],"num_threads":4,"max_tokens":5,"enforce_handshake_compat":false}}"#,
            ),
            (
                JSON,
                r#"{"kv_connector":"MultiConnector","kv_connector_extra_config":{"connectors":[{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both","kv_connector_extra_config":{"lmcache.chunk_size":256,"lmcache.local_cpu":true,"lmcache.max_local_cpu_size":20,"lmcache.remote_url":"lm://cache:65432","lmcache.remote_serde":"naive","lmcache.nixl_buffer_device":"cuda","lmcache.min_retrieve_tokens":16}}]}}"#,
            ),
            (
                JSON,
                r#"{"kv_connector":"P2pNcclConnector","kv_connector_extra_config":{"proxy_ip":"0.0.0.0","proxy_port":"30001","http_port":"20001","send_type":"PUT_ASYNC","nccl_num_channels":"16"}}"#,
            ),
            (JSON, r#"{"remote_url":"redis://cache:6379/a@b"}"#),
            (JSON, "$(CONFIG)"),
            (ETCD, "http://etcd:2379"),
            (ETCD, "https://a.svc:2379,https://[fd00::1]:2379"),
            (ETCD, "etcd:2379"),
            (ETCD, "http://etcd:2379#a@b"),
            (ETCD, "http://etcd?a@b"),
            ("NIXL_TELEMETRY_EXPORTER", "prometheus"),
            (
                "SGLANG_DISAGGREGATION_NIXL_BACKEND_PARAMS",
                r#"{"ucx_devices":"${UCX_NET_DEVICES}","ucx_error_handling_mode":"peer"}"#,
            ),
            ("UCX_NEW", "mlx5_0:1"),
        ] {
            assert!(!withheld_of(name, value), "{name}={value}");
        }
    }
}
