use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::{counted, part};
use crate::facts::container::Seen;
use crate::facts::nvidia_smi_q::{FabricState, Gpu, Query};
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// A GPU is not registered with its NVLink fabric.
    ///
    /// ## Why it matters
    /// On NVSwitch systems CUDA cannot start until fabric manager has registered every GPU (error 802), or it starts and NVLink
    /// is not used. `nvidia-smi nvlink -s` shows active links all the same.
    ///
    /// ## Fix
    /// Start fabric manager of the driver's very version (and NVLSM on NVLink 5 boards), then reset the GPUs.
    ///
    /// ## False alarms
    /// `N/A` is normal where there is no NVSwitch. A cluster UUID of zeros is normal on HGX boards, which are a fabric of their
    /// own; on GB200 and GB300 it is a fault.
    ///
    /// ## Sources
    /// NVIDIA/gpu-operator#2511, #610; siderolabs/extensions#717; Azure/azhpc-images#506; NVIDIA/NVSentinel#883, #889.
    "GPU005" "fabric-not-ready" on Container {
        subsystem: Gpu, kv_path: Supporting, worst: Fail, causes: &["GPU006"], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    container.require_gpu()?;
    let query = container.facts.gpu.fabric.get()?;
    let list = container.facts.gpu.list.get()?;
    let rack = list.iter().any(|gpu| gpu.is_rack_scale());
    let mut lines = Vec::new();
    let mut faults = Vec::new();
    let mut degraded = Vec::new();
    for gpu in &query.gpus {
        let Some(line) = line(gpu) else { continue };
        match fault(gpu, rack) {
            Some(what) => faults.push(format!("{line}: {what}")),
            None => degraded.extend(unhealthy(gpu).map(|what| format!("{line}: {what}"))),
        }
        lines.push(line);
    }
    let fix = "start fabric manager (same version as the driver; NVLSM too on NVLink 5) and reset the GPUs";
    if let Some(first) = faults.first() {
        let detail = format!(
            "{} not registered with the NVLink fabric: {first}",
            part(faults.len(), lines.len(), "GPU", ("is", "are"))
        );
        let seen = query.evidence(faults.iter().map(String::as_str));
        return Ok(vec![container.broken(detail).with([seen]).fix(fix)]);
    }
    if container.is_pasted()
        && let Some(draft) = sick(query)
    {
        return Ok(vec![draft]);
    }
    if query.is_cut() || query.gpus.len() < list.len() {
        let detail = format!(
            "the output is cut: the fabric state of {} is shown, and more GPUs are there",
            counted(query.gpus.len(), "GPU")
        );
        return Err(Skip::new(SkipReason::Unparsable, detail));
    }
    if let Some(first) = degraded.first() {
        let seen = query.evidence(degraded.iter().map(String::as_str));
        return Ok(vec![Draft::warn(first.clone()).with([seen]).fix(fix)]);
    }
    if lines.is_empty() {
        // No NVSwitch: nothing to register with.
        return Err(Skip::not_applicable());
    }
    let seen = query.evidence(lines.iter().map(String::as_str));
    let detail = match lines.len() {
        1 => "the GPU is registered with its NVLink fabric".to_owned(),
        all => format!("all {all} GPUs are registered with their NVLink fabric"),
    };
    Ok(vec![Draft::ok(detail).with([seen])])
}

/// Fields of a pasted query that the driver could not read.
fn sick(query: &Seen<Query>) -> Option<Draft> {
    let lines: Vec<String> = query
        .gpus
        .iter()
        .filter(|gpu| !gpu.sick_fields.is_empty())
        .map(|gpu| format!("GPU {}: {}", gpu.bus_id, gpu.sick_fields.join(", ")))
        .collect();
    let first = lines.first()?;
    let detail = format!(
        "the driver cannot read everything of {} (Unknown Error): {first}",
        counted(lines.len(), "GPU")
    );
    let seen = query.evidence(lines.iter().map(String::as_str));
    let fix = "look for Xid messages in the kernel's log; compare the driver with the GPU, and reset the GPU";
    let draft = Draft::warn(detail).with([seen]).fix(fix);
    Some(draft.headline("the driver cannot read everything of a GPU"))
}

/// What is shown of a GPU that has a fabric.
fn line(gpu: &Gpu) -> Option<String> {
    let fabric = gpu.fabric.as_ref()?;
    let state = match fabric.state.as_ref()? {
        FabricState::NotSupported => return None,
        FabricState::NotStarted => "Not Started",
        FabricState::InProgress => "In Progress",
        FabricState::Completed => "Completed",
        FabricState::Other(word) => word,
    };
    let status = fabric.status.as_deref().unwrap_or("N/A");
    Some(format!("GPU {} {state}, status {status}", gpu.bus_id))
}

fn fault(gpu: &Gpu, rack: bool) -> Option<&'static str> {
    let fabric = gpu.fabric.as_ref()?;
    match (&fabric.state, fabric.status.as_deref()) {
        (Some(FabricState::InProgress | FabricState::NotStarted), _) => {
            Some("fabric manager is not done")
        }
        (Some(FabricState::Completed), Some("Success")) | (_, None) => (rack
            && fabric.state == Some(FabricState::Completed)
            && fabric.cluster_uuid.is_some()
            && !fabric.is_multi_node())
        .then_some("no cluster UUID on a rack-scale system"),
        (Some(FabricState::Completed), Some(_)) => Some("registration ended with an error"),
        _ => Some("registration is not complete"),
    }
}

/// Words of the health block that are no good.
fn unhealthy(gpu: &Gpu) -> Option<String> {
    let health = &gpu.fabric.as_ref()?.health;
    let bad = |(key, value): &&(String, String)| match key.as_str() {
        "Bandwidth" => value == "Degraded",
        "Summary" => value.eq_ignore_ascii_case("unhealthy"),
        "Route Unhealthy" | "Access Timeout Recovery" | "Route Recovery in progress" => {
            value == "True"
        }
        _ => false,
    };
    let (key, value) = health.iter().find(bad)?;
    Some(format!("fabric health says {key}: {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, verdict};
    use crate::report::Status;

    const ZERO: &str = "00000000-0000-0000-0000-000000000000";
    const RACK: &str = "5c9ad3a2-6d11-4f0b-9a43-b34f5b3a1d10";

    fn query(product: &str, gpus: &[(&str, &str, &str, &str)]) -> String {
        let mut text = format!(
            "Attached GPUs                             : {}\n",
            gpus.len()
        );
        for (n, (state, status, uuid, bandwidth)) in gpus.iter().enumerate() {
            text.push_str(&format!(
                "GPU 00000000:{n}9:00.0\n    Product Name                          : {product}\n    Fabric\n        \
                 State                             : {state}\n        Status                            : {status}\n        \
                 CliqueId                          : 0\n        ClusterUUID                       : {uuid}\n        \
                 Health\n            Bandwidth                     : {bandwidth}\n    Processes                             : None\n"
            ));
        }
        text
    }

    fn with(product: &str, gpus: &[(&str, &str, &str, &str)], role: &str) -> Result<Status, Skip> {
        let text = query(product, gpus);
        verdict(run, role, &[(&ask::NVIDIA_SMI_FABRIC, text.as_str())])
    }

    #[test]
    fn every_gpu_must_be_registered() {
        let good = ("Completed", "Success", ZERO, "N/A");
        let hgx = "NVIDIA H100 80GB HBM3";
        assert_eq!(with(hgx, &[good, good], "decode"), Ok(Status::Ok));
        for bad in [
            ("In Progress", "N/A", "N/A", "N/A"),
            ("Not Started", "N/A", "N/A", "N/A"),
            ("Completed", "Insufficient Resources", ZERO, "N/A"),
            ("Completed", "Unknown Error", ZERO, "N/A"),
        ] {
            assert_eq!(
                with(hgx, &[good, bad], "decode"),
                Ok(Status::Fail),
                "{bad:?}"
            );
            assert_eq!(with(hgx, &[good, bad], "agg"), Ok(Status::Warn), "{bad:?}");
        }
        assert_eq!(
            with(
                hgx,
                &[good, ("Completed", "Success", ZERO, "Degraded")],
                "decode"
            ),
            Ok(Status::Warn)
        );
        let none = ("N/A", "N/A", "N/A", "N/A");
        assert_eq!(
            with("NVIDIA L40S", &[none], "decode"),
            Err(Skip::not_applicable())
        );
    }

    #[test]
    fn zeros_are_a_fault_on_a_rack_only() {
        let rack = ("Completed", "Success", RACK, "Full");
        let zero = ("Completed", "Success", ZERO, "Full");
        assert_eq!(with("NVIDIA GB200", &[rack], "decode"), Ok(Status::Ok));
        assert_eq!(with("NVIDIA GB200", &[zero], "decode"), Ok(Status::Fail));
        assert_eq!(with("NVIDIA B200", &[zero], "decode"), Ok(Status::Ok));
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        let text = query(
            "NVIDIA H100 80GB HBM3",
            &[("Completed", "Success", ZERO, "N/A")],
        );
        let cut = text.replace(": 1\n", ": 8\n");
        assert!(verdict(run, "decode", &[(&ask::SMI_Q, cut.as_str())]).is_err());
    }
}
