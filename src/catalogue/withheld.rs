//! Which values are not shown.

use super::variable::{Sensitivity, Variable};

/// Words that make a JSON key the name of a credential.
const SECRET_WORDS: [&str; 11] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "token",
    "secret",
    "credential",
    "credentials",
    "apikey",
    "accesskey",
    "privatekey",
];

/// Pairs of words that do the same together (`api_key`, `secretKey`).
const SECRET_PAIRS: [(&str, &str); 4] = [
    ("api", "key"),
    ("access", "key"),
    ("private", "key"),
    ("auth", "key"),
];

/// The value may hold credentials, so it is neither judged nor shown: a URL with user information, or JSON with a key
/// that names a secret. Ordinary values of the same variables are shown.
pub fn withheld(variable: &Variable, value: &str) -> bool {
    variable.sensitivity == Sensitivity::MayHoldCredentials
        && (has_user_information(value) || names_a_secret(value))
}

/// `scheme://user@host` or `scheme://user:password@host`, anywhere in the text.
fn has_user_information(text: &str) -> bool {
    text.match_indices("://").any(|(at, sign)| {
        text[at + sign.len()..]
            .split(['/', '?', '#', '"', '\'', ',', ' ', '\\'])
            .next()
            .is_some_and(|authority| authority.contains('@'))
    })
}

/// Looks at every quoted word and not only at parsed keys: a value that a shell still has to expand is no JSON yet.
fn names_a_secret(text: &str) -> bool {
    text.split(['"', '\'', '{', '}', ',', ':', '=', '&', '?', ' '])
        .any(is_secret_key)
}

fn is_secret_key(key: &str) -> bool {
    let words = words_of(key);
    words.iter().any(|w| SECRET_WORDS.contains(&w.as_str()))
        || words
            .windows(2)
            .any(|w| SECRET_PAIRS.contains(&(w[0].as_str(), w[1].as_str())))
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
    use crate::catalogue::find;

    #[test]
    fn credentials_are_withheld_and_ordinary_values_are_not() {
        let cases = [
            (
                "KV_TRANSFER_CONFIG",
                r#"{"kv_connector":"NixlConnector","kv_role":"kv_both"}"#,
                false,
            ),
            (
                "KV_TRANSFER_CONFIG",
                r#"{"kv_connector_extra_config":{"backends":["LIBFABRIC"],"max_tokens":5}}"#,
                false,
            ),
            (
                "KV_TRANSFER_CONFIG",
                r#"{"kv_connector_extra_config":{"lmcache.api_key":"x"}}"#,
                true,
            ),
            (
                "KV_TRANSFER_CONFIG",
                r#"{"remote_url":"redis://me:hunter2@cache:6379"}"#,
                true,
            ),
            (
                "KV_TRANSFER_CONFIG",
                r#"{"remote_url":"redis://cache:6379/a@b"}"#,
                false,
            ),
            ("KV_TRANSFER_CONFIG", r#"{"accessKey":"x"}"#, true),
            ("KV_TRANSFER_CONFIG", r#"{"s3Secret": $(SECRET)"#, true),
            ("NIXL_ETCD_ENDPOINTS", "http://etcd:2379", false),
            ("NIXL_ETCD_ENDPOINTS", "http://root@etcd:2379", true),
            ("UCX_TLS", "tcp://user:password@host", false),
        ];
        for (name, value, expected) in cases {
            let variable = find(name).expect("catalogued");
            assert_eq!(withheld(variable, value), expected, "{name}={value}");
        }
    }
}
