use crate::check;
use crate::checks::WorkloadScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::scope::no_number;
use crate::facts::container::software::numbers;
use crate::manifest::workload::{Engine, Role, UNRECOGNISED, Worker};
use crate::observed::Skip;
use crate::report::{KvPath, SkipReason, Status};

check! {
    /// Prefill and decode lay out their KV cache in ways that do not fit.
    ///
    /// Compared are the tensor-parallel size (1 where nothing states it), the type of the KV cache and the name of the model, as far
    /// as flags or the engine's configuration state them; block sizes have a check of their own.
    ///
    /// ## Why it matters
    /// Before 0.14 vLLM refuses a prefill worker that is split finer than its decode worker, and a KV cache of another type does
    /// not pass the handshake: decode computes everything again, or stops.
    ///
    /// ## Fix
    /// Run vLLM 0.14 or later, or make the tensor-parallel size of prefill at most that of decode; state the same
    /// `--kv-cache-dtype`.
    ///
    /// ## False alarms
    /// Which vLLM runs is seen in the containers alone: of manifests that split prefill finer it is said that the version decides.
    /// Not looked at is how many KV heads the model has; where prefill has more ranks than those, vLLM 0.14 refuses, too.
    ///
    /// ## Sources
    /// vllm-project/vllm#27274 (supported from 0.14.0 on; v0.13.0 `kv_connector/utils.py` asserts that the size of decode is a
    /// multiple), #43523 (refused in an earlier version), #50765, #29503.
    "DEP005" "kv-layout-differs" on Workload {
        subsystem: Deployment, kv_path: Supporting, worst: Fail, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkloadScope<'_>) -> Outcome {
    scope.over_pairs(|left, right| {
        // What an encode worker hands on is no KV.
        if left.role == Role::Encode {
            return Err(Skip::not_applicable());
        }
        let drafts: Vec<Draft> = [
            tensor_parallel(scope, left, right).unwrap_or_else(|skip| Some(Draft::skipped(skip))),
            cache_type(left, right),
            model(left, right),
        ]
        .into_iter()
        .flatten()
        .collect();
        match drafts.is_empty() {
            true => Err(Skip::not_applicable()),
            false => Ok(drafts),
        }
    })
}

/// The first vLLM whose decode worker reads from a prefill worker that is split finer, by its first two numbers.
/// <https://github.com/vllm-project/vllm/pull/27274>
const READS_FINER: (u32, u32) = (0, 14);

/// What the versions of vLLM that run say about a prefill worker that is split finer.
enum Finer {
    /// This one refuses it.
    Refused(String),
    /// All of them, this one the first, read from it.
    Read(String),
    /// The version of this role was not seen, or tells nothing.
    Unknown(Role),
}

impl Finer {
    fn of(scope: &WorkloadScope<'_>, left: &Worker, right: &Worker) -> Self {
        let mut read = None;
        let mut unknown = None;
        for role in [left.role, right.role] {
            let seen = scope.engines.versions(scope.workload, role, "vLLM");
            if seen.is_empty() {
                unknown = unknown.or(Some(role));
            }
            for version in seen {
                match numbers(version) {
                    // A build of a checkout without tags calls itself 0.1.dev1; one on the way to 0.14 may lack it yet.
                    Some((0, 1) | READS_FINER) if version.contains("dev") => {
                        unknown = unknown.or(Some(role));
                    }
                    Some(numbers) if numbers < READS_FINER => {
                        return Self::Refused(version.to_owned());
                    }
                    Some(_) => read = read.or(Some(version.to_owned())),
                    None => unknown = unknown.or(Some(role)),
                }
            }
        }
        match (unknown, read) {
            (None, Some(version)) => Self::Read(version),
            (unknown, _) => Self::Unknown(unknown.unwrap_or(right.role)),
        }
    }
}

/// Ranks of every engine where nothing is stated.
/// <https://github.com/vllm-project/vllm/blob/v0.14.0/vllm/config/parallel.py>,
/// <https://github.com/sgl-project/sglang/blob/v0.5.5/python/sglang/srt/server_args.py>,
/// <https://github.com/NVIDIA/TensorRT-LLM/blob/v1.1.0/tensorrt_llm/llmapi/llm_args.py>
const UNSTATED: u32 = 1;

fn tensor_parallel(
    scope: &WorkloadScope<'_>,
    left: &Worker,
    right: &Worker,
) -> Result<Option<Draft>, Skip> {
    let states = |worker: &Worker| worker.flags.contains_key("tensor-parallel-size");
    if !states(left) && !states(right) {
        return Ok(None);
    }
    let size = |worker: &Worker| match worker.flags.get("tensor-parallel-size") {
        // What no flag says may stand in the file.
        None if worker.kv_transfer.unread => Err(Skip::new(
            SkipReason::Unresolved,
            format!(
                "the tensor-parallel size of {} is not in this input, as its configuration file is not",
                worker.name
            ),
        )),
        None if worker.engine.is_some() => Ok(Some(UNSTATED)),
        None => Ok(None),
        Some(text) => text
            .parse::<u32>()
            .map(Some)
            .map_err(|_| no_number(worker, "tensor-parallel-size", text)),
    };
    let (Some(from), Some(to)) = (size(left)?, size(right)?) else {
        return Ok(None);
    };
    let vllm = left.engine == Some(Engine::Vllm) && right.engine == Some(Engine::Vllm);
    let (prefill, decode) = (left.called(), right.called());
    Ok(Some(if from > to && vllm {
        let sizes = format!("--tensor-parallel-size is {from} on {prefill} and {to} on {decode}");
        match Finer::of(scope, left, right) {
            Finer::Refused(version) => Draft::fail(format!(
                "{sizes}: vLLM {version} refuses a prefill worker that is split finer than decode (0.14 and later read from it)"
            ))
            .headline("prefill has a larger tensor-parallel size than decode")
            .with([left, right].map(|w| w.flag_spot("tensor-parallel-size").evidence()))
            .fix(
                "run vLLM 0.14 or later, or make the tensor-parallel size of prefill at most that of decode",
            ),
            Finer::Read(version) => Draft::ok(format!(
                "{sizes}; vLLM {version} lets decode read from several ranks of prefill, so watch for its handshake"
            )),
            Finer::Unknown(role) => Draft::skipped(Skip::new(
                SkipReason::NotFound,
                format!(
                    "{sizes}: vLLM reads from a prefill worker that is split finer than decode from 0.14 on and refuses it before; \
                     which version {} runs was not seen",
                    role.word()
                ),
            )),
        }
    } else if from == to {
        Draft::ok(format!("both roles use tensor-parallel size {from}"))
    } else {
        Draft::ok(format!(
            "the tensor-parallel size is {from} on {prefill} and {to} on {decode}; the engine has to rearrange KV, so watch for its \
             handshake"
        ))
    }))
}

/// Two names of models may mean the same, or lay out KV the same; whether they do is not known.
fn model(left: &Worker, right: &Worker) -> Option<Draft> {
    let named = |worker: &Worker| {
        let name = worker.flags.get("model")?;
        (name != UNRECOGNISED && !name.is_empty()).then(|| name.clone())
    };
    let (a, b) = (named(left)?, named(right)?);
    // An owner and a directory are not part of it.
    let last = |name: &str| {
        let parts = name.trim_end_matches('/').rsplit('/');
        parts.take(1).collect::<String>().to_lowercase()
    };
    if last(&a) == last(&b) {
        return None;
    }
    let detail = format!(
        "--model is {a} on {} and {b} on {}, and whether both lay out KV the same is not known",
        left.called(),
        right.called()
    );
    let skip = Skip::new(SkipReason::Unresolved, detail);
    Some(
        Draft::skipped(skip)
            .on_kv_path(KvPath::Required)
            .with([left.spot.evidence(), right.spot.evidence()])
            .fix("give both roles the same model"),
    )
}

/// The flag, as it is reported.
const TYPE: &str = "kv-cache-dtype";

fn cache_type(left: &Worker, right: &Worker) -> Option<Draft> {
    let stated = |worker: &Worker| {
        let text = worker.flags.get(TYPE)?;
        // vLLM takes the short word for the common form.
        Some(if text == "fp8" { "fp8_e4m3" } else { text }.to_owned())
    };
    let word = |kind: &Option<String>| kind.clone().unwrap_or_else(|| "not stated".to_owned());
    let (a, b) = (stated(left), stated(right));
    if a.is_none() && b.is_none() {
        return None;
    }
    if a == b {
        return Some(Draft::ok(format!("both roles keep KV as {}", word(&a))));
    }
    // What is not stated follows the model, which may say the same.
    let open = |kind: &Option<String>| kind.as_deref().is_none_or(|kind| kind == "auto");
    let status = match open(&a) || open(&b) {
        true => Status::Warn,
        false => Status::Fail,
    };
    if open(&a) && open(&b) {
        return Some(Draft::ok("both roles keep KV as the model says"));
    }
    let called = left.calls(TYPE);
    let detail = format!(
        "{called} is {} on {} and {} on {}",
        word(&a),
        left.called(),
        word(&b),
        right.called()
    );
    Some(
        Draft::new(status, detail)
            .headline("the ends keep KV in different types")
            .with([left, right].map(|w| w.flag_spot(TYPE).evidence()))
            .fix(format!("state the same {called} in both roles")),
    )
}

#[cfg(test)]
mod tests {
    use crate::ask;
    use crate::checks::testing::{
        Answers, Fleet, MOCKER, Pod, alone, encode_pd, graph, sglang, table, two_sided,
    };
    use crate::report::Status::{Fail, Ok, Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        let vllm = |flags: &str| format!("command: [python3, -m, dynamo.vllm]\nargs: [{flags}]");
        let tp = |p: &str, d: &str| {
            two_sided(&vllm(&format!("--tp, {p}")), &vllm(&format!("--tp, {d}")))
        };
        let kind = |p: &str, d: &str| {
            two_sided(
                &vllm(&format!("--kv-cache-dtype, {p}")),
                &vllm(&format!("--kv-cache-dtype, {d}")),
            )
        };
        table(
            "kv-layout-differs",
            &[
                ("the same size", tp("'4'", "'4'"), &[Ok]),
                ("decode is split finer", tp("'2'", "'8'"), &[Ok]),
                (
                    "prefill is split finer, and the version is not seen",
                    tp("'8'", "'4'"),
                    &[Skipped],
                ),
                (
                    "SGLang may",
                    two_sided(&sglang("--tp, '8'"), &sglang("--tp, '4'")),
                    &[Ok],
                ),
                ("a placeholder", tp("'8'", "<size>"), &[Skipped]),
                ("the same type", kind("fp8", "fp8_e4m3"), &[Ok]),
                ("another type", kind("fp8", "bfloat16"), &[Fail]),
                ("one follows the model", kind("fp8", "auto"), &[Warn]),
                (
                    "one states it",
                    two_sided(&vllm("--kv-cache-dtype, fp8"), &vllm("--x")),
                    &[Warn],
                ),
                (
                    "one rank by default on prefill",
                    two_sided(&vllm("--x"), &vllm("--tp, '8'")),
                    &[Ok],
                ),
                (
                    "one rank by default on decode, and the version is not seen",
                    two_sided(&vllm("--tp, '8'"), &vllm("--x")),
                    &[Skipped],
                ),
                (
                    "one rank by default, as is written",
                    two_sided(&vllm("--tp, '1'"), &vllm("--x")),
                    &[Ok],
                ),
                (
                    "the file of one is not there",
                    two_sided(&vllm("--tp, '8'"), &vllm("--config, /x.yaml")),
                    &[Skipped],
                ),
                (
                    "another model",
                    two_sided(&vllm("--model, Qwen/A"), &vllm("--model, Qwen/B")),
                    &[Skipped],
                ),
                (
                    "the same model from a directory",
                    two_sided(&vllm("--model, Qwen/A"), &vllm("--model, /models/a/")),
                    &[],
                ),
                ("stated by none", graph(&vllm("--x")), &[]),
                (
                    "an encode worker has no KV",
                    encode_pd("env: []", "args: [--kv-cache-dtype, fp8]"),
                    &[],
                ),
                (
                    "a mocker moves nothing",
                    tp("'8'", "'4'").replace("dynamo.vllm", "dynamo.mocker"),
                    &[],
                ),
                ("aggregated", alone(Pod::of(MOCKER)), &[]),
            ],
        );
    }
    #[test]
    fn the_version_of_vllm_decides_on_a_finer_prefill() {
        let fleet = |prefill: &str, decode: &str| {
            let packages = |version: &str| -> Answers {
                let package = format!("/v/site-packages/vllm-{version}.dist-info");
                vec![(&ask::PYTHON_PACKAGES, package)]
            };
            let body = |tp: u8| {
                format!("command: [python3, -m, dynamo.vllm]\nargs: [--tensor-parallel-size={tp}]")
            };
            let (prefill, decode) = (packages(prefill), packages(decode));
            Fleet::of(&[
                ("prefill", prefill.as_slice()),
                ("decode", decode.as_slice()),
            ])
            .body("prefill", &body(8))
            .body("decode", &body(4))
            .findings("kv-layout-differs")
        };
        for (prefill, decode, status) in [
            ("0.13.0", "0.13.0", Fail),
            ("0.14.0", "0.14.0", Ok),
            ("0.14.0rc1", "0.20.2rc1.dev265+gdd6b3a5ef", Ok),
            ("0.14.0", "0.12.0", Fail),
            // What lies between two releases, or says nothing of them.
            ("0.14.0", "0.14.0rc1.dev7+g1", Skipped),
            ("0.14.0", "0.1.dev1+g2b51d23f6", Skipped),
            ("0.14.0", "main", Skipped),
        ] {
            let found = fleet(prefill, decode);
            let said: Vec<_> = found.iter().map(|f| f.status).collect();
            assert_eq!(said, [status], "{prefill} and {decode}");
        }
        assert_eq!(
            fleet("0.12.0", "0.12.0")[0].detail,
            "--tensor-parallel-size is 8 on prefill and 4 on decode: vLLM 0.12.0 refuses a prefill worker that is split finer \
             than decode (0.14 and later read from it)"
        );
        assert!(fleet("0.14.0", "main")[0].detail.ends_with(
            "from 0.14 on and refuses it before; which version decode runs was not seen"
        ));
    }
}
