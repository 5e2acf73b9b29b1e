//! The words of a command, of which only those on a list go further: what is started, and the flags that decide how KV travels, how
//! it is laid out and how large it is.

use super::SETTINGS;
use crate::catalogue;
use serde_json::{Map, Value};

/// Stands for a word that is not shown.
const HIDDEN: &str = "_";

/// Flags whose value may be seen: those that decide how KV travels, how it is laid out and how large it is.
const FLAGS: &[&str] = &[
    "tensor-parallel-size",
    "tp-size",
    "tp",
    "pipeline-parallel-size",
    "pp-size",
    "pp",
    "data-parallel-size",
    "dp-size",
    "dp",
    "block-size",
    "kv-block-size",
    "page-size",
    "kv-cache-dtype",
    "dtype",
    "disaggregation-mode",
    "disaggregation-ib-device",
    "disaggregation-bootstrap-port",
    "disaggregation-transfer-backend",
    "kv-transfer-config",
    "kv-events-config",
    "connector",
    "host",
    "model",
    "model-path",
    "max-model-len",
    "context-length",
    "config",
    "extra-engine-args",
    "trtllm-config",
    "extra-llm-api-options",
    "override-engine-args",
    "trtllm.cache-transceiver-config.backend",
    "trtllm.kv-cache-config.tokens-per-block",
    "trtllm.kv-cache-config.dtype",
    "trtllm.tensor-parallel-size",
    "trtllm.pipeline-parallel-size",
    "trtllm.enable-attention-dp",
];

/// The flag whose value lays JSON over the configuration of TensorRT-LLM, and its twin in the environment: of what may hold
/// anything, [`SETTINGS`] remain.
pub(super) const OVERRIDES: [&str; 2] = ["override-engine-args", "DYN_TRTLLM_OVERRIDE_ENGINE_ARGS"];

/// The variable that names TensorRT-LLM's configuration file.
pub(super) const CONFIG_FILE: &str = "DYN_TRTLLM_EXTRA_ENGINE_ARGS";

/// Words that say what is started and how a script goes on.
const PLAIN: &[&str] = &[
    "python",
    "python3",
    "-m",
    "-c",
    "-lc",
    "-ec",
    "-e",
    "-x",
    "-u",
    "bash",
    "sh",
    "/bin/bash",
    "/bin/sh",
    "exec",
    "export",
    "set",
    "env",
    "vllm",
    "serve",
    "trtllm-serve",
    "ulimit",
    "-l",
    "unlimited",
    "if",
    "then",
    "else",
    "elif",
    "fi",
    "for",
    "in",
    "do",
    "done",
    "while",
    "until",
    "true",
    "false",
];

/// The path of a file; anything else is hidden.
pub(super) fn path(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    let is_path = text.starts_with(['/', '.']) && text.chars().all(plain);
    if is_path {
        text.to_owned()
    } else {
        HIDDEN.to_owned()
    }
}

/// JSON that is laid over the configuration of TensorRT-LLM, reduced to [`SETTINGS`] with plain values. Of an object the key
/// remains in any case: that it is there may drop what the file says in it. What is no JSON is hidden.
pub(super) fn overrides(text: &str) -> String {
    let Ok(Value::Object(all)) = serde_json::from_str::<Value>(text) else {
        return HIDDEN.to_owned();
    };
    fn plain(value: &Value) -> Value {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        match value {
            Value::Object(map) => map
                .iter()
                .filter(|(key, _)| LAID_OVER.contains(&key.as_str()))
                .map(|(key, value)| (key.clone(), plain(value)))
                .collect(),
            Value::String(word) if word.len() <= 20 && word.chars().all(is_plain) => value.clone(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            // Neither a word nor nothing: whoever reads it knows that it was not read.
            _ => Value::Array(Vec::new()),
        }
    }
    let kept: Map<String, Value> = all
        .iter()
        .filter(|(key, _)| SETTINGS.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), plain(value)))
        .collect();
    Value::Object(kept).to_string()
}

/// Keys inside of [`SETTINGS`] that are read.
const LAID_OVER: &[&str] = &["backend", "tokens_per_block", "dtype"];

/// The same where a shell reads it, quotes around it.
fn quoted_overrides(text: &str) -> String {
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    let bare = match (inner('\''), inner('"')) {
        (Some(inner), _) => inner.to_owned(),
        // Between double quotes a backslash stands before what the shell would read itself.
        (None, Some(inner)) if !inner.contains(['$', '`']) => {
            inner.replace("\\\"", "\"").replace("\\\\", "\\")
        }
        (None, Some(_)) => return HIDDEN.to_owned(),
        (None, None) => text.to_owned(),
    };
    let kept = overrides(&bare);
    match bare == text {
        true => kept,
        // It holds no quote of that kind: words and numbers alone.
        false => format!("'{kept}'"),
    }
}

/// A command: each word on a list, or hidden.
pub(super) fn words(value: &Value) -> Value {
    let mut out = Vec::new();
    let mut before = String::new();
    for item in value.as_array().into_iter().flatten() {
        let Some(text) = item.as_str() else { continue };
        // One word of an argument list, or a whole script.
        let of_flag = text
            .split_once('=')
            .is_some_and(|(head, _)| flag_of(head).is_some());
        let is_script =
            text.contains(char::is_whitespace) && flag_of(&before).is_none() && !of_flag;
        let kept = if is_script {
            script(text).unwrap_or_else(|| HIDDEN.to_owned())
        } else {
            word(text, &before)
        };
        before = text.to_owned();
        out.push(Value::from(kept));
    }
    Value::Array(out)
}

/// The flag on the list that wants a value after it.
fn flag_of(word: &str) -> Option<&str> {
    let name = word.strip_prefix("--").or(match word {
        "-tp" | "-pp" | "-dp" => Some(&word[1..]),
        _ => None,
    })?;
    FLAGS
        .iter()
        .copied()
        .find(|flag| *flag == name.replace('_', "-"))
}

/// One word, after the word before it.
fn word(text: &str, before: &str) -> String {
    let bare = |t: &str| t.trim_matches(['"', '\'']).to_owned();
    if let Some((head, value)) = text.split_once('=') {
        if head.starts_with("--") {
            return match flag_of(head) {
                Some(flag) if flag == OVERRIDES[0] => format!("{head}={}", quoted_overrides(value)),
                Some(_) if !catalogue::withheld_of("", value) => text.to_owned(),
                _ => format!("{head}={HIDDEN}"),
            };
        }
        if head == OVERRIDES[1] {
            return format!("{head}={}", quoted_overrides(value));
        }
        if head == CONFIG_FILE {
            return format!("{head}={}", path(&bare(value)));
        }
        if let Some(known) = catalogue::find(head) {
            // A computed value, and one that nobody may see, are the same to the reader: known only when it runs.
            let hidden = catalogue::withheld(known, &bare(value));
            return if hidden || value.contains("$(") || value.contains('`') {
                format!("{head}=$({HIDDEN})")
            } else {
                text.to_owned()
            };
        }
        return HIDDEN.to_owned();
    }
    if flag_of(before) == Some(OVERRIDES[0]) && !text.starts_with("--") {
        return quoted_overrides(text);
    }
    let is_name = |t: &str| {
        t.chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    let flag = text.starts_with("--") && is_name(text);
    let module = |t: &str| {
        ["dynamo.", "sglang.", "vllm.", "tensorrt_llm."]
            .iter()
            .any(|p| t.starts_with(p))
            && is_name(t)
    };
    let operator = |t: &str| t.chars().all(|c| "&|;(){}!\\[]".contains(c));
    let valued = (flag_of(before).is_some() || before == "serve")
        && !text.starts_with("--")
        && !catalogue::withheld_of("", &bare(text));
    let shown = flag
        || valued
        || PLAIN.contains(&text)
        || module(text)
        || operator(text)
        || matches!(text, "-tp" | "-pp" | "-dp");
    if shown {
        text.to_owned()
    } else {
        HIDDEN.to_owned()
    }
}

/// A script, word by word. None where its quotes do not close.
fn script(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut before = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if first.is_whitespace() {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        if first == '#' {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
            continue;
        }
        let end = word_end(rest)?;
        let (whole, more) = rest.split_at(end);
        rest = more;
        // A line that goes on: what stands before it is still the word before.
        if whole.trim() == "\\" {
            out.push_str(whole);
            continue;
        }
        // `rc;` is a word and what ends it.
        let bare = whole.trim_end_matches(';');
        out.push_str(&if bare.is_empty() {
            whole.to_owned()
        } else {
            word(bare, &before) + &whole[bare.len()..]
        });
        before = bare.to_owned();
    }
    Some(out)
}

/// Where the word at the beginning of `text` ends: at a blank outside of quotes and `$( )`. None where they stay open.
fn word_end(text: &str) -> Option<usize> {
    let (mut single, mut double, mut depth, mut escaped) = (false, false, 0usize, false);
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if !single => escaped = true,
            '\'' if !double => single = !single,
            '"' if !single => double = !double,
            '(' if !single && (before == '$' || depth > 0) => depth += 1,
            ')' if !single && depth > 0 => depth -= 1,
            c if c.is_whitespace() && !single && !double && depth == 0 => return Some(at),
            _ => {}
        }
        before = c;
    }
    (!single && !double && depth == 0).then_some(text.len())
}

#[cfg(test)]
mod tests {
    use super::super::variable;
    use super::*;
    use serde_json::json;

    #[test]
    fn words_of_commands_are_on_a_list_or_hidden() {
        let cases = [
            (
                json!(["--kv-transfer-config={\"kv_connector\": \"NixlConnector\"}"]),
                json!(["--kv-transfer-config={\"kv_connector\": \"NixlConnector\"}"]),
            ),
            (
                json!([
                    "python3",
                    "-m",
                    "dynamo.vllm",
                    "--model",
                    "org/m",
                    "--api-key",
                    "s3cret",
                    "--tp=4"
                ]),
                json!([
                    "python3",
                    "-m",
                    "dynamo.vllm",
                    "--model",
                    "org/m",
                    "--api-key",
                    "_",
                    "--tp=4"
                ]),
            ),
            (
                json!([
                    "--kv-transfer-config",
                    "{\"kv_connector\": \"NixlConnector\"}",
                    "--token=s3cret"
                ]),
                json!([
                    "--kv-transfer-config",
                    "{\"kv_connector\": \"NixlConnector\"}",
                    "--token=_"
                ]),
            ),
            (
                json!([
                    "bash",
                    "-c",
                    "# don't\nexport UCX_TLS=rc; TOKEN=s3cret curl -H \"k: s3cret\"\nexec python3 -m dynamo.sglang --page-size 16"
                ]),
                json!([
                    "bash",
                    "-c",
                    "\nexport UCX_TLS=rc; _ _ _ _\nexec python3 -m dynamo.sglang --page-size 16"
                ]),
            ),
            (
                json!(["-c", "UCX_NET_DEVICES=$(cat /s3cret | head) echo 's3cret"]),
                json!(["-c", "_"]),
            ),
            (
                json!(["-c", "export UCX_NET_DEVICES=\"$(cat /s3cret)\" && true"]),
                json!(["-c", "export UCX_NET_DEVICES=$(_) && true"]),
            ),
        ];
        for (given, wanted) in cases {
            assert_eq!(words(&given), wanted);
        }
    }

    #[test]
    fn what_a_start_script_lays_over_is_seen() {
        let json =
            "{\"cache_transceiver_config\": {\"backend\": \"MPI\"}, \"api_key\": \"s3cret\"}";
        let kept = "DYN_TRTLLM_OVERRIDE_ENGINE_ARGS='{\"cache_transceiver_config\":{\"backend\":\"MPI\"}}'";
        for script in [
            format!(
                "export DYN_TRTLLM_OVERRIDE_ENGINE_ARGS='{json}'\nexec python3 -m dynamo.trtllm"
            ),
            format!("DYN_TRTLLM_OVERRIDE_ENGINE_ARGS='{json}' exec python3 -m dynamo.trtllm"),
            format!("env DYN_TRTLLM_OVERRIDE_ENGINE_ARGS='{json}' python3 -m dynamo.trtllm"),
        ] {
            let said = words(&json!(["-c", script])).to_string();
            assert!(said.contains(&kept.replace('"', "\\\"")), "{said}");
            assert!(!said.contains("s3cret"), "{said}");
        }
        let file = "export DYN_TRTLLM_EXTRA_ENGINE_ARGS=\"/etc/e.yaml\"";
        let said = words(&json!(["-c", file])).to_string();
        assert!(
            said.contains("DYN_TRTLLM_EXTRA_ENGINE_ARGS=/etc/e.yaml"),
            "{said}"
        );
        // A line that goes on.
        let script = "exec python3 -m dynamo.vllm --kv-transfer-config \\\n  '{\"kv_connector\": \"NixlConnector\"}' \\\n  --tp 4";
        assert_eq!(words(&json!(["-c", script])), json!(["-c", script]));
    }

    #[test]
    fn of_what_is_laid_over_a_configuration_only_settings_are_seen() {
        let json = "{\"api_key\": \"s3cret\", \"kv_cache_config\": {\"tokens_per_block\": 64, \"x\": \"s3cret\"}, \
                    \"cache_transceiver_config\": {\"backend\": \"MPI\"}, \"tensor_parallel_size\": null, \"enable_attention_dp\": true}";
        let kept = "{\"kv_cache_config\":{\"tokens_per_block\":64},\"cache_transceiver_config\":{\"backend\":\"MPI\"},\
                    \"enable_attention_dp\":true,\"tensor_parallel_size\":null}";
        let same = |text: &str| {
            let of = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(of(text.trim_matches('\'')), of(kept), "{text}");
        };
        let said = words(&json!(["--override-engine-args", json]));
        same(said[1].as_str().unwrap());
        let said = words(&json!([format!("--override-engine-args={json}")]));
        same(&said[0].as_str().unwrap()["--override-engine-args=".len()..]);
        for script in [
            format!("exec x --override-engine-args '{json}'"),
            format!(
                "exec x --override-engine-args \"{}\"",
                json.replace('"', "\\\"")
            ),
            format!("exec x --override-engine-args='{json}'"),
        ] {
            let said = words(&json!(["-c", script]));
            let said = said[1].as_str().unwrap();
            same(said.split_at(said.find('\'').unwrap()).1);
        }
        let of = |name: &str, value: &str| {
            let kept = variable(&json!({"name": name, "value": value})).unwrap();
            kept["value"].as_str().unwrap().to_owned()
        };
        same(&of(OVERRIDES[1], json));
        assert_eq!(of(CONFIG_FILE, "/etc/e.yaml"), "/etc/e.yaml");
        assert_eq!(of(CONFIG_FILE, "https://u:s3cret@h/e.yaml"), HIDDEN);
        for open in [
            "s3cret",
            "[\"s3cret\"]",
            "\"$(cat /s3cret)\"",
            "{\"kv_cache_config\": \"s3cret of mine\"}",
        ] {
            for said in [
                words(&json!(["--override-engine-args", open])),
                words(&json!(["-c", format!("x --override-engine-args {open}")])),
            ] {
                assert!(!said.to_string().contains("s3cret"), "{open}: {said}");
            }
        }
    }
}
