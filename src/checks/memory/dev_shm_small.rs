use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::shm;
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// `/dev/shm` is small or nearly full.
    ///
    /// ## Why it matters
    /// Engines, NCCL and UCX exchange data between their processes there. When it fills up a process dies with a bus error.
    ///
    /// ## Fix
    /// Set the shared memory of the component (`sharedMemory.size`, `sharedMemorySize`) to 16Gi, for TensorRT-LLM 80Gi.
    ///
    /// ## Sources
    /// Dynamo guides (16Gi, 80Gi); NVIDIA/nccl#342, #525; llm-d/llm-d#352; vllm-project/vllm#4383.
    "MEM002" "dev-shm-small" on Container {
        subsystem: Memory, kv_path: Supporting, worst: Fail, causes: &["K8S013"], since: "0.1.0",
    }
}

/// What runtimes mount where nothing is said: 64 MiB.
const RUNTIME_DEFAULT: u64 = 64 << 20;

/// From this share on it counts as nearly full, in percent. This project's own judgement.
const NEARLY_FULL: u64 = 95;

fn run(container: &Container<'_>) -> Outcome {
    let shm = container.facts.host.shm.get()?;
    let Some(size) = shm.size_bytes else {
        let detail = "the mount of /dev/shm names no size; df shows it";
        return Err(Skip::new(SkipReason::NotCollected, detail));
    };
    let line = match shm.used_bytes {
        Some(used) => format!("/dev/shm of {}, {} in use", shown(size), shown(used)),
        None => format!("/dev/shm of {}", shown(size)),
    };
    let seen = [shm.evidence([line.as_str()])];
    let full = shm
        .used_bytes
        .is_some_and(|used| size > 0 && used.saturating_mul(100) / size >= NEARLY_FULL);
    if full {
        let detail = format!("{line}: nearly full, and a full one ends in a bus error");
        let fix = "raise the shared memory size of the component, and look for what fills it (`ls -la /dev/shm`)";
        let headline = format!("/dev/shm of {} is nearly full", container.called());
        let draft = container.broken(detail).headline(headline);
        return Ok(vec![draft.with(seen).fix(fix)]);
    }
    let asked = shm::asked(shm::engine_of(container.facts.process.worker_word()));
    let fix = format!(
        "set the shared memory size of the component to {}",
        asked.size
    );
    let written = container.written();
    let paste = written.map(|(workload, worker)| shm::lines(workload, worker, asked.size));
    if size <= RUNTIME_DEFAULT {
        let detail =
            format!("{line}: the runtime's default of 64 MiB, too small for NCCL and the engine");
        let headline = format!("/dev/shm of {} has only 64 MiB", container.called());
        let mut draft = container.broken(detail).headline(headline);
        draft.paste = paste;
        return Ok(vec![draft.with(seen).fix(fix)]);
    }
    if size < shm::SMALL && container.moves_kv() {
        let detail = format!("{line}: {}", asked.words);
        let headline = format!("/dev/shm of {} is small", container.called());
        let mut draft = Draft::warn(detail).headline(headline);
        draft.paste = paste;
        return Ok(vec![draft.with(seen).fix(fix)]);
    }
    if shm.used_bytes.is_none() {
        let detail = format!("{line}; how much of it is in use was not seen");
        return Err(Skip::new(SkipReason::NotCollected, detail));
    }
    Ok(vec![Draft::ok(line).with(seen)])
}

/// In the unit that a person would choose.
fn shown(bytes: u64) -> String {
    match bytes {
        0..0x0010_0000 => format!("{bytes} bytes"),
        0x0010_0000..0x4000_0000 => format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, container, outcome, verdict};
    use crate::report::Status;

    #[test]
    fn size_and_use_count() {
        let with = |role: &str, size_kb: u64, used_kb: u64| {
            let text = format!(
                "Filesystem 1024-blocks Used Available Capacity Mounted on\nshm {size_kb} {used_kb} {} 1% /dev/shm\n",
                size_kb - used_kb
            );
            verdict(run, role, &[(&ask::SHM, text.as_str())])
        };
        let gib = 1 << 20;
        assert_eq!(with("decode", 16 * gib, 0), Ok(Status::Ok));
        assert_eq!(with("decode", 8 * gib, 0), Ok(Status::Warn));
        assert_eq!(with("agg", 8 * gib, 0), Ok(Status::Ok));
        assert_eq!(with("decode", 64 << 10, 0), Ok(Status::Fail));
        assert_eq!(with("agg", 64 << 10, 0), Ok(Status::Warn));
        assert_eq!(with("decode", 100 * gib, 96 * gib), Ok(Status::Fail));
        assert!(verdict(run, "decode", NOTHING).is_err());
        // The mount says how large it is, and not how full.
        let mount = |size: u64| format!("1 2 0:30 / /dev/shm rw - tmpfs shm rw,size={size}k");
        let by_mount = |size| verdict(run, "decode", &[(&ask::MOUNTS, mount(size).as_str())]);
        assert_eq!(by_mount(65536), Ok(Status::Fail));
        assert!(by_mount(32 * gib).is_err());
    }

    #[test]
    fn the_engine_decides_how_much_is_asked_for() {
        let with = |word: &str| {
            let environment = format!("# process 7 {word}\n");
            let size = "Filesystem 1024-blocks Used Available Capacity Mounted on\nshm 8388608 0 8388608 1% /dev/shm\n";
            let answers = [(&ask::SHM, size), (&ask::ENVIRONMENT, environment.as_str())];
            let draft = outcome(run, &container("decode", &answers))
                .unwrap()
                .remove(0);
            format!("{} {}", draft.detail, draft.fix.unwrap())
        };
        for (word, asked, other) in [
            ("dynamo.trtllm", "80Gi", "16Gi"),
            ("dynamo.vllm", "16Gi", "80Gi"),
        ] {
            let said = with(word);
            assert_eq!(said.matches(asked).count(), 2, "{said}");
            assert!(!said.contains(other), "{said}");
        }
    }
}
