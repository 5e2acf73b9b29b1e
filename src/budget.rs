//! How long the KV cache of one prompt travels: a pure function of what the manifests say of the model, and of what lanes
//! were measured or, by what may carry KV, could do.

mod nominal;

use crate::checks::words::listed;
use crate::facts::pair::PairFacts;
use crate::manifest::workload::{Engine, Role, UNRECOGNISED, Worker, Workload};
use crate::report::{Fix, KvBudget, LaneTime};
use crate::snapshot::Folded;
use std::collections::BTreeSet;

/// What the user wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Tokens of the prompt.
    pub isl: u64,
    /// Bytes of KV cache per token, where the user knows them.
    pub kv_bytes_per_token: Option<u64>,
    /// What the time to the first token may be.
    pub slo_ms: Option<u64>,
}

/// The formula as it stands in the report.
pub const FORMULA: &str = "added TTFT = kv_bytes_per_token * ISL / parts / bandwidth of one lane; parts = TP * PP of the \
     role that has fewer, TP being that of attention";

/// What `explain kv-budget` says.
pub const EXPLANATION: &str = "added TTFT = kv_bytes_per_token * ISL / parts / bandwidth of one lane

kv_bytes_per_token = 2 * layers * kv_heads * head_dim * bytes_per_element for models with multi-head or grouped-query \
attention: keys and values. Models with multi-head latent attention (DeepSeek, Kimi) keep layers * (kv_lora_rank + \
qk_rope_head_dim) elements, and every rank holds all of them. Give it with --kv-bytes-per-token; otherwise it is read from the \
model's name and the engine's flags (--kv-cache-dtype, else 2 bytes).

parts = how many ranks send side by side: the tensor-parallel size, at most the number of KV heads, times the pipeline-parallel \
size, of the role that has fewer ranks. The KV of latent attention is not split by tensor parallelism. Where attention is \
data-parallel, the KV of a request lies on the ranks of one group alone: SGLang (--enable-dp-attention) has TP / DP of them, \
TensorRT-LLM (enable_attention_dp) one.

bandwidth = the slower of WRITE and READ of the slowest pair, where transfers were made (--transfer). Else nominal: what one \
GPU has of the active ports that its container may open and UCX_NET_DEVICES leaves, so a port that eight GPUs share counts an \
eighth. UCX spreads one transfer over at most 2 of them (UCX_MAX_RMA_RAILS), libfabric over all that belong to the GPU: four EFA \
of 100 Gb/s are 50 GB/s. Where all ends are in one NVLink domain, or share one node and its namespaces, and UCX may use \
cuda_ipc, it is the sum of the GPU's active NVLinks in one direction. A nominal figure is the best that the hardware could do and \
proves nothing; none is given where the KV path is judged wrong, or where what carries KV was not seen.

Example: Llama-3.1-8B has 32 layers, 8 KV heads of 128, 2 bytes each: 131072 bytes per token. 8000 tokens are 1.05 GB: 109 ms \
at 9.6 GB/s, 1.05 s at 1 GB/s, 10.5 s at 0.1 GB/s.

It is the time on the wire of one request alone. Transfers that overlap with computing hide a part of it, and other requests \
on the same lane add to it. Published TTFT figures of deployments cannot be derived from it.";

/// How a model keeps KV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cache {
    /// Multi-head or grouped-query attention: KV heads and the size of one.
    Heads(u64, u64),
    /// Multi-head latent attention: elements per layer.
    Latent(u64),
}

/// A model whose cache is known.
struct Model {
    /// Beginning of its name, small letters.
    name: &'static str,
    layers: u64,
    cache: Cache,
    source: &'static str,
}

const LLAMA: &str = "The Llama 3 Herd of Models, table 3 (arXiv:2407.21783)";
const LLAMA_32: &str = "config.json of meta-llama/Llama-3.2-3B";
const QWEN3: &str = "Qwen3 Technical Report, tables 1 and 2 (arXiv:2505.09388)";
const QWEN25: &str = "Qwen2.5 Technical Report, table 1 (arXiv:2412.15115)";
const DEEPSEEK: &str = "DeepSeek-V3 Technical Report, section 4.2 (arXiv:2412.19437)";

const fn heads(
    name: &'static str,
    layers: u64,
    heads: u64,
    dim: u64,
    source: &'static str,
) -> Model {
    let cache = Cache::Heads(heads, dim);
    Model {
        name,
        layers,
        cache,
        source,
    }
}

const fn latent(name: &'static str, layers: u64, elements: u64, source: &'static str) -> Model {
    let cache = Cache::Latent(elements);
    Model {
        name,
        layers,
        cache,
        source,
    }
}

/// Well-known models. Hybrids with windows or recurrent layers (gpt-oss, Qwen3-Next, Qwen3.5, Nemotron-H) and sparse
/// attention with an index cache (DeepSeek-V3.2 and later) are left out on purpose: one number per token does not describe
/// them.
const MODELS: &[Model] = &[
    heads("llama-3.1-8b", 32, 8, 128, LLAMA),
    heads("llama-3.1-70b", 80, 8, 128, LLAMA),
    heads("llama-3.3-70b", 80, 8, 128, LLAMA),
    heads("llama-3.1-405b", 126, 8, 128, LLAMA),
    heads("llama-3.2-3b", 28, 8, 128, LLAMA_32),
    heads("deepseek-r1-distill-llama-8b", 32, 8, 128, LLAMA),
    heads("deepseek-r1-distill-llama-70b", 80, 8, 128, LLAMA),
    heads("qwen3-0.6b", 28, 8, 128, QWEN3),
    heads("qwen3-1.7b", 28, 8, 128, QWEN3),
    heads("qwen3-4b", 36, 8, 128, QWEN3),
    heads("qwen3-8b", 36, 8, 128, QWEN3),
    heads("qwen3-14b", 40, 8, 128, QWEN3),
    heads("qwen3-32b", 64, 8, 128, QWEN3),
    heads("qwen3-30b-a3b", 48, 4, 128, QWEN3),
    heads("qwen3-235b-a22b", 94, 4, 128, QWEN3),
    heads("qwen2.5-7b", 28, 4, 128, QWEN25),
    heads("qwen2.5-14b", 48, 8, 128, QWEN25),
    heads("qwen2.5-32b", 64, 8, 128, QWEN25),
    heads("qwen2.5-72b", 80, 8, 128, QWEN25),
    latent("deepseek-r1", 61, 512 + 64, DEEPSEEK),
    latent("deepseek-v3", 61, 512 + 64, DEEPSEEK),
    latent("deepseek-v3.1", 61, 512 + 64, DEEPSEEK),
];

/// What may follow the name of a model without making it another one: tuning, quantisation, dates.
const VARIANTS: &[&str] = &[
    "instruct", "base", "chat", "thinking", "it", "hf", "fp8", "fp4", "nvfp4", "bf16", "fp16",
    "int4", "int8", "awq", "gptq", "dynamic", "w4a16", "w8a8", "kv", "block", "v1", "v2",
];

/// The model of a name or a path.
fn model(name: &str) -> Option<&'static Model> {
    // Directories, and the cache of Hugging Face: models--Qwen--Qwen3-32B.
    let pieces = name.split('/').flat_map(|part| part.split("--"));
    let mut found = pieces.filter_map(|piece| {
        let piece = piece.to_ascii_lowercase().replace('_', "-");
        let piece = piece.strip_prefix("meta-").unwrap_or(&piece);
        MODELS.iter().find(|model| {
            piece.strip_prefix(model.name).is_some_and(|rest| {
                let is_variant = |word: &str| {
                    VARIANTS.contains(&word) || word.chars().all(|c| c.is_ascii_digit())
                };
                rest.is_empty() || rest.starts_with('-') && rest[1..].split('-').all(is_variant)
            })
        })
    });
    found.next()
}

impl Model {
    /// Elements per token over all layers.
    fn elements(&self) -> u64 {
        match self.cache {
            Cache::Heads(heads, dim) => 2 * self.layers * heads * dim,
            Cache::Latent(elements) => self.layers * elements,
        }
    }

    fn says(&self) -> String {
        match self.cache {
            Cache::Heads(heads, dim) => {
                format!("2 x {} layers x {heads} KV heads x {dim}", self.layers)
            }
            Cache::Latent(elements) => {
                format!("{} layers x {elements} latent elements", self.layers)
            }
        }
    }
}

/// Bytes of one element of the cache. None: the flag says something else.
fn element(worker: &Worker) -> Option<(u64, bool)> {
    let flag = |name: &str| {
        let value = worker.flags.get(name).map(|v| v.to_ascii_lowercase());
        value.filter(|v| v != "auto")
    };
    let width = |word: &str| match word {
        "fp8" | "fp8_e4m3" | "fp8_e5m2" | "int8" => Some(1),
        "bf16" | "bfloat16" | "fp16" | "float16" | "half" => Some(2),
        "float" | "float32" | "fp32" => Some(4),
        _ => None,
    };
    match (flag("kv-cache-dtype"), flag("dtype")) {
        (Some(cache), _) => Some((width(&cache)?, true)),
        (None, Some(weights)) => Some((width(&weights)?, false)),
        (None, None) => Some((2, false)),
    }
}

/// Computes the budget of a deployment. `fault`: what is wrong on its KV path, where something is; what a path could do that
/// KV does not take is no answer.
pub fn compute(
    asked: Asked,
    workload: &Workload,
    snapshots: &[Folded],
    pairs: &[PairFacts],
    fault: Option<&Fix>,
) -> KvBudget {
    let of = |role: Role| workload.workers.iter().filter(move |w| w.role == role);
    let ends: Vec<&Worker> = of(Role::Prefill).chain(of(Role::Decode)).collect();
    let mut budget = KvBudget {
        isl: asked.isl,
        kv_bytes_per_token: None,
        bytes_source: String::new(),
        bytes: None,
        parts: 1,
        parts_source: String::new(),
        assumed: Vec::new(),
        may_be_half: false,
        parts_assumed: false,
        slowest: None,
        fastest: None,
        slo_ms: asked.slo_ms,
        formula: FORMULA,
        missing: Vec::new(),
    };
    let known = the_model(&ends);
    per_token(&mut budget, asked, &known, &ends);
    parts(&mut budget, known.as_ref().ok().copied(), &ends);
    budget.bytes = budget
        .kv_bytes_per_token
        .and_then(|n| n.checked_mul(asked.isl));
    let lanes = match measured(pairs) {
        lanes if !lanes.is_empty() => lanes,
        _ => match fault {
            Some(fault) => {
                budget.missing.push(format!(
                    "no nominal figure, because the KV path is judged wrong ({} on {}): mend that, or measure the lanes with \
                     --transfer",
                    fault.headline, fault.target
                ));
                Vec::new()
            }
            None => nominal::lanes(&ends, snapshots).unwrap_or_else(|why| {
                budget.missing.push(why);
                Vec::new()
            }),
        },
    };
    let Some(bytes) = budget.bytes else {
        return budget;
    };
    #[expect(
        clippy::cast_precision_loss,
        reason = "a time is shown with three digits"
    )]
    let each = bytes as f64 / budget.parts as f64;
    let time = |(of, gbytes, measured): &Lane| LaneTime {
        gbytes: *gbytes,
        measured: *measured,
        of: of.clone(),
        added_ms: each / (gbytes * 1e9) * 1e3,
    };
    let slowest = lanes.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let fastest = lanes.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    // Another lane is worth a word where it is another kind of lane.
    budget.fastest = fastest
        .filter(|fast| slowest.is_some_and(|slow| fast.1 > 2.0 * slow.1))
        .map(time);
    budget.slowest = slowest.map(time);
    budget
}

/// A lane: which, GB/s, and whether that was measured.
type Lane = (String, f64, bool);

/// The one model of these workers, or why it is not known.
fn the_model(ends: &[&Worker]) -> Result<&'static Model, String> {
    let mut names: BTreeSet<&str> = ends
        .iter()
        .filter_map(|w| w.flags.get("model").map(String::as_str))
        .collect();
    let unread = names.remove(UNRECOGNISED);
    let last = |name: &str| {
        let parts = name.rsplit('/').find(|part| !part.is_empty());
        parts.unwrap_or_default().to_owned()
    };
    let mut models = names
        .iter()
        .map(|name| model(name).ok_or_else(|| last(name)));
    match models.next() {
        None if unread => Err("the model is named in a way that is not read".to_owned()),
        None => Err("no flag of the engine names the model".to_owned()),
        Some(Err(name)) => Err(format!("{name} is not in the table of known models")),
        Some(Ok(first)) => match models.all(|other| other.is_ok_and(|o| o.name == first.name)) {
            true => Ok(first),
            false => Err("the workers name different models".to_owned()),
        },
    }
}

fn per_token(
    budget: &mut KvBudget,
    asked: Asked,
    known: &Result<&'static Model, String>,
    ends: &[&Worker],
) {
    if let Some(bytes) = asked.kv_bytes_per_token {
        budget.kv_bytes_per_token = Some(bytes);
        budget.bytes_source = "--kv-bytes-per-token".to_owned();
        return;
    }
    let model = match known {
        Ok(model) => model,
        Err(why) => {
            budget.bytes_source = why.clone();
            budget.missing.push(format!(
                "{why}: give --kv-bytes-per-token (2 x layers x KV heads x head size x bytes per element, from the model's \
                 config.json)"
            ));
            return;
        }
    };
    let sizes: BTreeSet<Option<(u64, bool)>> = ends.iter().map(|w| element(w)).collect();
    let widest = sizes.iter().flatten().max().copied();
    let (Some((size, stated)), false) = (widest, sizes.contains(&None)) else {
        let why = "the data type of the KV cache is not one whose size is known";
        budget.bytes_source = why.to_owned();
        budget
            .missing
            .push(format!("{why}: give --kv-bytes-per-token"));
        return;
    };
    budget.kv_bytes_per_token = Some(model.elements() * size);
    budget.bytes_source = format!(
        "{}: {} x {size} bytes ({})",
        model.name,
        model.says(),
        model.source
    );
    if !stated {
        budget.may_be_half = size > 1;
        let silent = |w: &&&Worker| element(w).is_some_and(|(_, stated)| !stated);
        let silent: Vec<String> = ends.iter().filter(silent).map(|w| w.called()).collect();
        let who = match silent.len() == ends.len() {
            true => "no flag sets".to_owned(),
            false => {
                let silent: Vec<&str> = silent.iter().map(String::as_str).collect();
                format!("no flag of {} sets", listed(&silent))
            }
        };
        budget.assumed.push(format!(
            "{size} bytes per element: {who} the data type of the cache; one of FP8 takes 1"
        ));
    }
}

fn parts(budget: &mut KvBudget, model: Option<&Model>, ends: &[&Worker]) {
    let number = |w: &Worker, flag: &str| w.flags.get(flag).map(|text| text.parse::<u64>().ok());
    let mut least: Option<(u64, String)> = None;
    for worker in ends {
        let (tp, pp) = (
            number(worker, "tensor-parallel-size"),
            number(worker, "pipeline-parallel-size"),
        );
        let unread = [tp, pp].contains(&Some(None));
        // One is the default of every engine; TensorRT-LLM reads it from a file as well.
        if unread || tp.is_none() && !matches!(worker.engine, Some(Engine::Vllm | Engine::Sglang)) {
            budget.parts_assumed = true;
        }
        let (tp, pp) = (
            tp.flatten().unwrap_or(1).max(1),
            pp.flatten().unwrap_or(1).max(1),
        );
        let ranks = match attention(worker, tp) {
            Some(ranks) => ranks,
            None => {
                budget.parts_assumed = true;
                budget.assumed.push(format!(
                    "the KV of a request lies on one rank of {}: over how many attention is split is not known",
                    worker.called()
                ));
                1
            }
        };
        let split = match model.map(|m| m.cache) {
            Some(Cache::Latent(_)) => 1,
            Some(Cache::Heads(heads, _)) => ranks.min(heads),
            None => ranks,
        };
        let n = split.saturating_mul(pp);
        if least.as_ref().is_none_or(|(least, _)| n < *least) {
            let alone = match ranks == tp {
                true => String::new(),
                false => format!(", attention over {ranks} of the ranks (data-parallel)"),
            };
            let of = worker.called();
            least = Some((n, format!("{of}: TP {tp}, PP {pp}{alone}")));
        }
    }
    if model.is_none() && least.as_ref().is_some_and(|(n, _)| *n > 1) {
        budget.assumed.push(
            "the KV of this model is split by tensor parallelism, as that of latent attention is not"
                .to_owned(),
        );
        budget.parts_assumed = true;
    } else if budget.parts_assumed {
        budget
            .assumed
            .push("TP 1 and PP 1 where no flag that is read says otherwise".to_owned());
    }
    (budget.parts, budget.parts_source) = least.unwrap_or((1, "no worker".to_owned()));
}

/// Ranks over which the KV of one request is split by tensor parallelism, of `tp`; None where that is not known.
/// <https://github.com/sgl-project/sglang/blob/v0.5.5/python/sglang/srt/layers/dp_attention.py> (`attn_tp_size`),
/// <https://github.com/NVIDIA/TensorRT-LLM/blob/v1.1.0/tensorrt_llm/mapping.py> (`attn_tp_size` is 1 with `enable_attention_dp`)
fn attention(worker: &Worker, tp: u64) -> Option<u64> {
    let switch = worker.flags.get("enable-dp-attention");
    match switch.map(|word| word.to_ascii_lowercase()).as_deref() {
        None | Some("false" | "0" | "no" | "off") => Some(tp),
        Some("true" | "1" | "yes" | "on") => {
            match (worker.engine, worker.flags.get("data-parallel-size")) {
                (Some(Engine::Trtllm), _) => Some(1),
                (Some(Engine::Vllm), _) => Some(tp),
                // One group is no group.
                (Some(Engine::Sglang), None) => Some(tp),
                (Some(Engine::Sglang), Some(groups)) => {
                    let groups: u64 = groups.parse().ok()?;
                    Some((tp / groups.max(1)).max(1))
                }
                (None, _) => None,
            }
        }
        Some(_) => None,
    }
}

/// Lanes that were measured: of each pair the slower direction.
fn measured(pairs: &[PairFacts]) -> Vec<Lane> {
    let speed = |p: &PairFacts| match (p.write_gbytes, p.read_gbytes) {
        (Some(write), Some(read)) => Some(write.min(read)),
        (one, other) => one.or(other),
    };
    pairs
        .iter()
        .filter_map(|p| {
            let of = format!("{} -> {}", p.initiator, p.target);
            Some((of, speed(p).filter(|s| *s > 0.0)?, true))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{graph, hcas, two_sided};
    use crate::manifest::{self, Text};
    use crate::report::Status;
    use crate::snapshot::{Answer, Place, PlaceKind, Snapshot};
    use crate::source::SourceFile;

    fn workload(flags: &str) -> Workload {
        let text = graph(&format!(
            "command: [python3, -m, dynamo.vllm]\nargs: [{flags}]"
        ));
        let path = "t.yaml".to_owned();
        let source = std::sync::Arc::new(SourceFile { path, text });
        let text = Text {
            source,
            named: true,
            companion: false,
        };
        manifest::read(&[text]).workloads.remove(0)
    }

    const ASKED: Asked = Asked {
        isl: 8000,
        kv_bytes_per_token: None,
        slo_ms: None,
    };

    fn with(flags: &str, asked: Asked, pairs: &[PairFacts]) -> KvBudget {
        compute(asked, &workload(flags), &[], pairs, None)
    }

    fn pair(write: f64, read: f64) -> PairFacts {
        PairFacts {
            initiator: "d".to_owned(),
            target: "p".to_owned(),
            namespace: None,
            status: Status::Ok,
            detail: String::new(),
            fix: None,
            proven: true,
            unproven: vec![],
            wrong_bytes: false,
            reason: None,
            lane: String::new(),
            write_gbytes: Some(write),
            read_gbytes: Some(read),
            of_line_rate: None,
            memory: "gpu".to_owned(),
            steps: Vec::new(),
            caveats: Vec::new(),
            evidence: Vec::new(),
        }
    }

    #[test]
    fn names_of_models() {
        let rows = [
            ("meta-llama/Llama-3.1-8B-Instruct", Some(131_072)),
            (
                "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic",
                Some(131_072),
            ),
            ("Qwen/Qwen3-32B", Some(262_144)),
            ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", Some(98_304)),
            (
                "/cache/hub/models--Qwen--Qwen3-0.6B/snapshots/c1899de2",
                Some(114_688),
            ),
            ("/model-cache/deepseek-r1-fp4", Some(70_272)),
            ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", Some(327_680)),
            // The figures that Insights into DeepSeek-V3 (arXiv:2505.09343), table 1, gives.
            ("Qwen/Qwen2.5-72B-Instruct", Some(327_680)),
            ("meta-llama/Llama-3.1-405B-Instruct", Some(516_096)),
            ("deepseek-ai/DeepSeek-V3.2", None),
            ("Qwen/Qwen3-Next-80B-A3B-Instruct", None),
            ("Qwen/Qwen3-8B-Mamba", None),
            ("openai/gpt-oss-120b", None),
            ("", None),
        ];
        for (name, bytes) in rows {
            assert_eq!(model(name).map(|m| m.elements() * 2), bytes, "{name}");
        }
    }

    #[test]
    fn the_example_of_the_explanation() {
        let flags = "--model, meta-llama/Llama-3.1-8B-Instruct, --kv-cache-dtype, bfloat16";
        let budget = with(flags, ASKED, &[pair(9.6, 9.7)]);
        assert_eq!(budget.bytes, Some(1_048_576_000));
        let slowest = budget.slowest.unwrap();
        assert!(
            (slowest.added_ms - 109.2).abs() < 0.1,
            "{}",
            slowest.added_ms
        );
        assert!(slowest.measured);
        assert_eq!(budget.assumed, [] as [&str; 0]);
    }

    #[test]
    fn parts_and_bytes() {
        let llama = "--model, meta-llama/Llama-3.1-8B-Instruct";
        let rows = [
            (format!("{llama}, --tp, '4'"), Some(131_072), 4),
            (format!("{llama}, --tp, '16'"), Some(131_072), 8),
            (format!("{llama}, --tp, '4', --pp, '2'"), Some(131_072), 8),
            (format!("{llama}, --kv-cache-dtype, fp8"), Some(65_536), 1),
            (format!("{llama}, --kv-cache-dtype, nvfp4"), None, 1),
            (format!("{llama}, --dtype, float32"), Some(262_144), 1),
            (
                "--model, deepseek-ai/DeepSeek-R1, --tp, '8'".to_owned(),
                Some(70_272),
                1,
            ),
            ("--model, acme/thing".to_owned(), None, 1),
            ("--x, y".to_owned(), None, 1),
        ];
        for (flags, bytes, parts) in rows {
            let budget = with(&flags, ASKED, &[pair(1.0, 1.0)]);
            assert_eq!(
                (budget.kv_bytes_per_token, budget.parts),
                (bytes, parts),
                "{flags}"
            );
            assert_eq!(budget.slowest.is_some(), bytes.is_some(), "{flags}");
            assert_eq!(budget.missing.is_empty(), bytes.is_some(), "{flags}");
        }
        let given = Asked {
            kv_bytes_per_token: Some(1000),
            ..ASKED
        };
        let budget = with("--model, acme/thing, --tp, '2'", given, &[pair(4.0, 2.0)]);
        assert_eq!((budget.bytes, budget.parts), (Some(8_000_000), 2));
        assert!(budget.parts_assumed && budget.assumed.len() == 1);
        assert!((budget.slowest.unwrap().added_ms - 2.0).abs() < 1e-9);
    }

    /// The KV of a request lies on the ranks of one group.
    #[test]
    fn attention_that_is_data_parallel_splits_less() {
        let of = |module: &str, flags: &str| {
            let text = graph(&format!(
                "command: [python3, -m, {module}]\nargs: [--model, Qwen/Qwen3-235B-A22B, {flags}]"
            ));
            let path = "t.yaml".to_owned();
            let source = std::sync::Arc::new(SourceFile { path, text });
            let (named, companion) = (true, false);
            let text = Text {
                source,
                named,
                companion,
            };
            let workload = manifest::read(&[text]).workloads.remove(0);
            let asked = Asked { isl: 4000, ..ASKED };
            let budget = compute(asked, &workload, &[], &[pair(50.0, 50.0)], None);
            (budget.parts, budget.parts_assumed, budget.parts_source)
        };
        let (sglang, trtllm) = ("dynamo.sglang", "dynamo.trtllm");
        let dp = "--tp, '8', --dp-size, '8', --enable-dp-attention";
        let over = r#"--tensor-parallel-size, '8', --override-engine-args, '{"enable_attention_dp": true}'"#;
        let off = over.replace("true", "false");
        for (module, flags, parts, assumed) in [
            (sglang, "--tp, '8'", 4, false),
            (sglang, dp, 1, false),
            (
                sglang,
                "--tp, '8', --dp-size, '4', --enable-dp-attention",
                2,
                false,
            ),
            // Without the switch DP is whole engines, and one group is none.
            (sglang, "--tp, '8', --dp-size, '8'", 4, false),
            (sglang, "--tp, '8', --enable-dp-attention", 4, false),
            (
                sglang,
                "--tp, '8', --dp-size, $DP, --enable-dp-attention",
                1,
                true,
            ),
            (trtllm, over, 1, false),
            (trtllm, off.as_str(), 4, false),
            (
                trtllm,
                "--tensor-parallel-size, '8', --trtllm.enable_attention_dp, 'true'",
                1,
                false,
            ),
            (
                trtllm,
                "--tensor-parallel-size, '8', --trtllm.enable_attention_dp, $DP",
                1,
                true,
            ),
        ] {
            let said = of(module, flags);
            assert_eq!((said.0, said.1), (parts, assumed), "{flags}: {}", said.2);
        }
        let source = of(sglang, dp).2;
        assert!(
            source.ends_with("TP 8, PP 1, attention over 1 of the ranks (data-parallel)"),
            "{source}"
        );
    }

    #[test]
    fn who_says_nothing_of_the_cache_is_named() {
        let said = |prefill: &str, decode: &str| {
            let container = |flags: &str| {
                format!(
                    "command: [python3, -m, dynamo.vllm]\nargs: [--model, Qwen/Qwen3-8B{flags}]"
                )
            };
            let text = two_sided(&container(prefill), &container(decode));
            let path = "t.yaml".to_owned();
            let source = std::sync::Arc::new(SourceFile { path, text });
            let (named, companion) = (true, false);
            let text = Text {
                source,
                named,
                companion,
            };
            let workload = manifest::read(&[text]).workloads.remove(0);
            let budget = compute(ASKED, &workload, &[], &[pair(1.0, 1.0)], None);
            (
                budget.kv_bytes_per_token,
                budget.may_be_half,
                budget.assumed.join("; "),
            )
        };
        let fp8 = ", --kv-cache-dtype, fp8";
        // 2 x 36 layers x 8 KV heads x 128, of one byte and of two.
        assert_eq!(said(fp8, fp8), (Some(73_728), false, String::new()));
        let (bytes, half, assumed) = said("", "");
        assert_eq!((bytes, half), (Some(147_456), true));
        assert!(
            assumed.contains(": no flag sets the data type"),
            "{assumed}"
        );
        let (bytes, half, assumed) = said(fp8, "");
        assert_eq!((bytes, half), (Some(147_456), true));
        assert!(
            assumed.contains(": no flag of d (decode) sets the data type"),
            "{assumed}"
        );
    }

    #[test]
    fn a_path_that_is_judged_wrong_has_no_nominal_time() {
        let fault = crate::checks::testing::Fleet::of(&[
            (
                "prefill",
                crate::checks::testing::hca("mlx5_0", "1: DOWN", "open").as_slice(),
            ),
            (
                "decode",
                crate::checks::testing::hca("mlx5_0", "1: DOWN", "open").as_slice(),
            ),
        ])
        .fix_first()
        .remove(0);
        let graph = workload("--model, Qwen/Qwen3-8B");
        let budget = compute(ASKED, &graph, &[], &[], Some(&fault));
        assert_eq!(budget.slowest, None);
        let why = budget.missing.join("; ");
        assert!(why.contains("judged wrong (no RDMA port"), "{why}");
        // What was measured was measured.
        let budget = compute(ASKED, &graph, &[], &[pair(1.0, 1.0)], Some(&fault));
        assert!(budget.slowest.is_some_and(|lane| lane.measured));
    }

    #[test]
    fn the_slowest_pair_counts_and_another_kind_of_lane_is_named() {
        let flags = "--model, Qwen/Qwen3-8B";
        let budget = with(
            flags,
            ASKED,
            &[pair(46.0, 45.0), pair(0.9, 0.5), pair(44.0, 44.0)],
        );
        let (slow, fast) = (budget.slowest.unwrap(), budget.fastest.unwrap());
        assert!((slow.gbytes - 0.5).abs() < 1e-9 && (fast.gbytes - 45.0).abs() < 1e-9);
        let budget = with(flags, ASKED, &[pair(46.0, 45.0), pair(44.0, 44.0)]);
        assert_eq!(budget.fastest, None);
    }

    #[test]
    fn without_a_transfer_the_ports_say_what_could_be() {
        let snapshot = |role: &str, states: &[&str]| {
            let mut answers = hcas(states);
            let gpu = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)\n".to_owned();
            answers.push((&ask::ENVIRONMENT, "# process 7 dynamo.vllm\n".to_owned()));
            answers.push((&ask::UCX_SETTINGS, String::new()));
            answers.push((&ask::NVIDIA_SMI_NVLINK, gpu));
            let snapshot = Snapshot {
                place: Place {
                    kind: PlaceKind::Pod,
                    role: Some(role.to_owned()),
                    ..Place::host(role)
                },
                answers: answers
                    .into_iter()
                    .map(|(ask, text)| (ask.id.to_owned(), Answer::Text(text)))
                    .collect(),
            };
            Folded::from(snapshot)
        };
        let graph = workload("--model, Qwen/Qwen3-8B");
        let rows = [
            (
                vec![
                    snapshot("prefill", &["4: ACTIVE"]),
                    snapshot("decode", &["4: ACTIVE"]),
                ],
                Some(50.0),
            ),
            (
                vec![
                    snapshot("prefill", &["4: ACTIVE"]),
                    snapshot("decode", &["1: DOWN"]),
                ],
                None,
            ),
            (
                vec![snapshot("prefill", &["4: ACTIVE"]), snapshot("decode", &[])],
                None,
            ),
            (vec![], None),
        ];
        for (snapshots, wanted) in rows {
            let budget = compute(ASKED, &graph, &snapshots, &[], None);
            assert_eq!(budget.slowest.as_ref().map(|l| l.gbytes), wanted);
            assert!(budget.slowest.is_none_or(|lane| !lane.measured));
            assert_eq!(budget.missing.is_empty(), wanted.is_some());
        }
    }
}
