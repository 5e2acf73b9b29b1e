use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;

check! {
    /// Library and kernel module of the NVIDIA driver are of different versions, so no program can use the GPUs.
    ///
    /// ## Why it matters
    /// The driver was updated and its old kernel module is still loaded, or the container brings libraries of another version.
    /// NVML, CUDA and everything above them fail to start.
    ///
    /// ## Fix
    /// Reload the kernel module or restart the node. In a container: remove driver libraries from the image, so that the NVIDIA
    /// Container Toolkit mounts those of the node.
    ///
    /// ## Sources
    /// NVML API reference, `NVML_ERROR_LIB_RM_VERSION_MISMATCH`.
    "GPU009" "driver-versions-differ" on Container {
        subsystem: Gpu, kv_path: Off, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    // Only the refusal shows it: that another output of `nvidia-smi` is there does not rule it out for the worker.
    let Some(refusal) = &container.facts.gpu.versions_differ else {
        return Err(Skip::not_applicable());
    };
    let detail = "nvidia-smi did not run: library and kernel module of the NVIDIA driver are of different versions";
    let fix = "reload the kernel module or restart the node; in a container, look which driver libraries are in the image";
    let draft = Draft::warn(detail)
        .headline("library and kernel module of the NVIDIA driver are of different versions")
        .with([refusal.evidence([refusal.as_str()])])
        .fix(fix);
    Ok(vec![draft])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, verdict};
    use crate::report::Status;

    #[test]
    fn the_refusal_is_said_whichever_output_has_it() {
        let refusal = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.54\n";
        for ask in [
            &ask::SMI_Q,
            &ask::NVIDIA_SMI_TOPO,
            &ask::NVIDIA_SMI_NVLINK,
            &ask::NVIDIA_SMI_FABRIC,
            &ask::NVIDIA_SMI_QUERY,
        ] {
            let answers = [(ask, refusal)];
            assert_eq!(
                verdict(run, "decode", &answers),
                Ok(Status::Warn),
                "{}",
                ask.id
            );
        }
        let other = [(&ask::SMI_Q, "Failed to initialize NVML: Unknown Error\n")];
        let nothing = Err(Skip::not_applicable());
        assert_eq!(verdict(run, "decode", &other), nothing);
        assert_eq!(verdict(run, "decode", NOTHING), nothing);
    }
}
