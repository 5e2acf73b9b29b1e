//! How much shared memory a disaggregated worker should have: the same number wherever a report speaks of it.

use crate::manifest::workload::{Engine, Worker, Workload};

/// Less than this many bytes is too small for any engine: 16 GiB, what the Dynamo guide on disaggregated communication asks for
/// vLLM. <https://github.com/ai-dynamo/dynamo/blob/main/docs/kubernetes/disagg-communication-guide.md>
pub(super) const SMALL: u64 = 16 << 30;

/// What the guide asks for an engine.
pub(super) struct Asked {
    /// As a quantity of Kubernetes.
    pub size: &'static str,
    /// Who says so, for a sentence.
    pub words: &'static str,
}

/// By the engine. TensorRT-LLM is asked for more than anything fails below: recipes of Dynamo itself give it 64Gi.
pub(super) fn asked(engine: Option<Engine>) -> Asked {
    let (size, words) = match engine {
        Some(Engine::Trtllm) => (
            "80Gi",
            "the Dynamo guide on disaggregated communication asks for 80Gi with TensorRT-LLM",
        ),
        Some(Engine::Vllm | Engine::Sglang) | None => (
            "16Gi",
            "the Dynamo guide on disaggregated communication asks for 16Gi",
        ),
    };
    Asked { size, words }
}

/// The engine that a process is, by the word that it is known by (`dynamo.trtllm`).
pub(super) fn engine_of(word: Option<&str>) -> Option<Engine> {
    let word = word?.to_ascii_lowercase();
    let known = [Engine::Trtllm, Engine::Sglang, Engine::Vllm];
    known
        .into_iter()
        .find(|engine| word.contains(engine.word()))
}

/// Lines to paste for this size, where this API version keeps it.
pub(super) fn lines(workload: &Workload, worker: &Worker, size: &str) -> String {
    let name = &worker.name;
    match workload.api_version.as_str() {
        "nvidia.com/v1alpha1" => {
            format!("# under spec.services.{name}\nsharedMemory:\n  size: {size}")
        }
        "nvidia.com/v1beta1" => {
            format!("# under spec.components[{name}]\nsharedMemorySize: {size}")
        }
        _ => format!(
            "# the volume that is mounted on /dev/shm\nemptyDir:\n  medium: Memory\n  sizeLimit: {size}"
        ),
    }
}
