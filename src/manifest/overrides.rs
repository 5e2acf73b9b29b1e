//! What goes before TensorRT-LLM's configuration file: `--override-engine-args` and `--trtllm.*` of Dynamo's worker.
//!
//! The worker takes its flags, lays the file over them and these over both, key by key (`deep_update`). `--trtllm.a.b X` is
//! another way to write `--override-engine-args '{"a": {"b": "X"}}'`, and a worker that has both does not start.
//! dynamo `components/src/dynamo/trtllm`: `workers/llm_worker.py`, `dynamic_flags.py`, `backend_args.py`.

use super::env::{Env, Setting};
use super::flags::{Flag, Flags};
use super::workload::Engine;
use serde_json::Value;

/// The flag, without its dashes.
pub(super) const FLAG: &str = "override-engine-args";
/// Its twin in the environment, which a flag goes before.
pub(super) const VARIABLE: &str = "DYN_TRTLLM_OVERRIDE_ENGINE_ARGS";

/// What is laid over the configuration file. Nothing at all for other engines.
#[derive(Debug, Default)]
pub(super) struct Overrides<'f> {
    flags: Option<&'f Flags>,
    /// The flag or variable that holds the whole.
    from: String,
    /// What it holds; none where that could not be read, so that it may say anything.
    whole: Option<Value>,
}

/// What is laid over one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Laid {
    /// Nothing: the file holds.
    Nothing,
    /// Something that was not read: the flag or variable.
    Unread(String),
    /// Nothing may stand there, whatever the file says.
    Null,
    /// A word or a number.
    Word(String),
}

impl<'f> Overrides<'f> {
    /// Of a worker. One whose engine is not known may be TensorRT-LLM.
    pub fn read(engine: Option<Engine>, flags: &'f Flags, env: &Env) -> Self {
        if !matches!(engine, None | Some(Engine::Trtllm)) {
            return Self::default();
        }
        let by_flag = flags.get(&[FLAG]).map(|flag| match flag {
            Flag::Text(text) | Flag::Foreign(text) => Some(text.as_str()),
            Flag::Present | Flag::Unresolved(_) => None,
        });
        let by_variable = || env.get(VARIABLE).map(Setting::text);
        let from = match by_flag {
            Some(_) => format!("--{FLAG}"),
            None => VARIABLE.to_owned(),
        };
        let whole = match by_flag.or_else(by_variable) {
            None | Some(Some("")) => Some(Value::Null),
            Some(text) => text.and_then(|text| serde_json::from_str(text).ok()),
        };
        Self {
            flags: Some(flags),
            from,
            whole,
        }
    }

    /// What is laid over the setting at the end of these keys.
    pub fn at(&self, path: &[&str]) -> Laid {
        let Some(flags) = self.flags else {
            return Laid::Nothing;
        };
        let unread = || Laid::Unread(self.from.clone());
        let Some(whole) = &self.whole else {
            return unread();
        };
        let laid = laid(whole, path).unwrap_or_else(unread);
        if laid != Laid::Nothing {
            return laid;
        }
        let dotted = format!("trtllm.{}", path.join("."));
        match flags.get(&[&dotted.replace('_', "-")]) {
            Some(Flag::Text(text) | Flag::Foreign(text)) => Laid::Word(text.clone()),
            Some(_) => Laid::Unread(format!("--{dotted}")),
            None => Laid::Nothing,
        }
    }

    /// The flag or variable whose text could not be read.
    pub fn unread(&self) -> Option<&str> {
        (self.flags.is_some() && self.whole.is_none()).then_some(self.from.as_str())
    }

    /// Something is laid over the map under this key: releases that make an object of what the file says there drop it then.
    /// <https://github.com/NVIDIA/TensorRT-LLM/blob/v1.0.0/tensorrt_llm/llmapi/llm_args.py> (`update_llm_args_with_extra_dict`)
    pub fn may_drop(&self, key: &str) -> bool {
        let whole = self.whole.as_ref();
        let dotted = format!("trtllm.{}.", key.replace('_', "-"));
        whole.is_some_and(|whole| whole.get(key).is_some_and(Value::is_object))
            || self.flags.is_some_and(|flags| flags.has_under(&dotted))
    }
}

/// None where something else stands there than a word, a number or nothing.
fn laid(whole: &Value, path: &[&str]) -> Option<Laid> {
    // Nothing was written at all.
    if whole.is_null() {
        return Some(Laid::Nothing);
    }
    let mut at = whole;
    for key in path {
        at = match at {
            Value::Object(map) => match map.get(*key) {
                Some(value) => value,
                None => return Some(Laid::Nothing),
            },
            Value::Null => return Some(Laid::Null),
            _ => return None,
        };
    }
    match at {
        Value::Null => Some(Laid::Null),
        Value::String(word) => Some(Laid::Word(word.clone())),
        Value::Number(number) => Some(Laid::Word(number.to_string())),
        Value::Bool(is) => Some(Laid::Word(is.to_string())),
        Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::env;
    use crate::manifest::flags::Argument;
    use crate::manifest::place::Range;

    const BACKEND: [&str; 2] = ["cache_transceiver_config", "backend"];

    fn flags(words: &[&str]) -> Flags {
        let known = |text: &&str| Argument {
            text: (*text).to_owned(),
            ..Argument::default()
        };
        Flags::parse(&words.iter().map(known).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_laid_over_a_setting() {
        let word = |text: &str| Laid::Word(text.to_owned());
        let unread = |what: &str| Laid::Unread(what.to_owned());
        let dotted = ["--trtllm.cache_transceiver_config.backend", "UCX"];
        let whole = |json| ["--override-engine-args", json];
        for (words, laid) in [
            (&[][..], Laid::Nothing),
            (&dotted, word("UCX")),
            (&whole("{\"a\": 1}"), Laid::Nothing),
            (
                &whole("{\"cache_transceiver_config\": {\"backend\": \"MPI\"}}"),
                word("MPI"),
            ),
            (
                &whole("{\"cache_transceiver_config\": {\"backend\": null}}"),
                Laid::Null,
            ),
            (&whole("{\"cache_transceiver_config\": null}"), Laid::Null),
            (&whole("{\"cache_transceiver_config\": {}}"), Laid::Nothing),
            (
                &whole("{\"cache_transceiver_config\": {\"backend\": []}}"),
                unread("--override-engine-args"),
            ),
            (&whole("_"), unread("--override-engine-args")),
            (
                &["--override-engine-args"],
                unread("--override-engine-args"),
            ),
            (
                &["--trtllm.cache-transceiver-config.backend"],
                unread("--trtllm.cache_transceiver_config.backend"),
            ),
        ] {
            let flags = flags(words);
            let of = |engine| Overrides::read(engine, &flags, &Env::default()).at(&BACKEND);
            assert_eq!(of(Some(Engine::Trtllm)), laid, "{words:?}");
            assert_eq!(of(Some(Engine::Vllm)), Laid::Nothing, "{words:?}");
        }
    }

    #[test]
    fn a_map_that_is_laid_over_may_drop_what_the_file_says_there() {
        let say = |words: &[&str]| {
            let flags = flags(words);
            Overrides::read(None, &flags, &Env::default()).may_drop("kv_cache_config")
        };
        let json = "{\"kv_cache_config\": {\"free_gpu_memory_fraction\": 0.8}}";
        assert!(say(&["--override-engine-args", json]));
        assert!(say(&["--trtllm.kv_cache_config.dtype", "fp8"]));
        assert!(!say(&["--override-engine-args", "{\"max_seq_len\": 1}"]));
    }

    #[test]
    fn the_variable_stands_for_the_flag_that_is_not_there() {
        let say = |value, words: &[&str]| {
            let mut env = Env::default();
            env.set(
                VARIABLE,
                env::Setting::new(
                    value,
                    "env",
                    Range {
                        start: 0,
                        end: 0,
                        line: 1,
                    },
                ),
            );
            Overrides::read(Some(Engine::Trtllm), &flags(words), &env).at(&BACKEND)
        };
        let json = "{\"cache_transceiver_config\": {\"backend\": \"MPI\"}}";
        let text = || env::Value::Text(json.to_owned());
        assert_eq!(say(text(), &[]), Laid::Word("MPI".to_owned()));
        assert_eq!(
            say(text(), &["--override-engine-args", "{}"]),
            Laid::Nothing
        );
        let unread = Laid::Unread(VARIABLE.to_owned());
        assert_eq!(say(env::Value::Dynamic, &[]), unread);
        assert_eq!(say(env::Value::Text("{".to_owned()), &[]), unread);
    }
}
