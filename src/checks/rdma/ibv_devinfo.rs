use crate::check;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::{counted, span};
use crate::checks::{Container, asked};
use crate::facts::hca::Absence;
use crate::observed::Skip;

check! {
    /// The verbs library of this image cannot use a device that the container may open.
    ///
    /// ## Why it matters
    /// The kernel is fine and the permission is there, but the image lacks the user-space driver of the adapter, or has one of
    /// another ABI. UCX and NCCL use the same library and see nothing.
    ///
    /// ## Fix
    /// Install the provider in the image (`ibverbs-providers`, `libmlx5`, the vendor's package), of the same release as
    /// `libibverbs`.
    ///
    /// ## Sources
    /// k8snetworkplumbingwg/sriov-cni#348 (provider ABI); spidernet-io/spiderpool#4345; rdma-core v55.0 `devinfo.c`.
    "RDMA004" "ibv-devinfo" on Container {
        subsystem: Rdma, kv_path: Supporting, worst: Fail, causes: &[], since: "0.1.0",
    }
}

const PROVIDER: &str = "install the verbs provider of this adapter in the image (ibverbs-providers on Debian and Ubuntu), of the same \
                        release as libibverbs";

fn run(container: &Container<'_>) -> Outcome {
    let rdma = &container.facts.rdma;
    let verbs = rdma.verbs.get()?;
    if container.is_pasted() {
        return unusable(container);
    }
    let granted = rdma.granted.get()?;
    if granted.devices.is_empty() {
        // `device-not-granted` and `ib-devices` say why.
        return Err(Skip::not_applicable());
    }
    let shown: Vec<&str> = verbs.devices.iter().map(|d| d.name.as_str()).collect();
    let lost: Vec<&str> = granted
        .devices
        .iter()
        .map(String::as_str)
        .filter(|name| verbs.device(name).is_none())
        .collect();
    let words = match verbs.absence {
        Some(Absence::NoDevice) => "No IB devices found".to_owned(),
        Some(Absence::NoSubsystem) => "Function not implemented".to_owned(),
        None if shown.is_empty() && !verbs.without_driver.is_empty() => {
            "no userspace device-specific driver found".to_owned()
        }
        None => shown.join(" "),
    };
    let seen = [verbs.evidence([words.as_str()])];
    if lost.is_empty() {
        let detail = match granted.devices.len() {
            1 => "ibv_devinfo opens the device of the container".to_owned(),
            all => format!("ibv_devinfo opens all {all} devices of the container"),
        };
        return Ok(vec![Draft::ok(detail).with(seen)]);
    }
    let detail = format!(
        "the kernel opens {} for this container, and the verbs library of the image does not show {}",
        if lost.len() == 1 {
            "a device".to_owned()
        } else {
            format!("{} devices", lost.len())
        },
        lost.join(", ")
    );
    let draft = if lost.len() == granted.devices.len() {
        container.broken(detail)
    } else {
        Draft::warn(detail)
    };
    Ok(vec![draft.with(seen).fix(PROVIDER)])
}

/// A pasted output cannot be compared with what the worker was given, and yet says what it could not use itself.
fn unusable(container: &Container<'_>) -> Outcome {
    let verbs = container.facts.rdma.verbs.get()?;
    let mut drafts = Vec::new();
    let mut add = |detail: String, seen: &str, fix: &str, headline: &str| {
        let draft = if verbs.devices.is_empty() {
            container.broken(detail)
        } else {
            Draft::warn(detail)
        };
        let seen = [verbs.evidence([seen])];
        drafts.push(draft.with(seen).fix(fix).headline(headline));
    };
    if !verbs.without_driver.is_empty() {
        let nodes: Vec<&str> = verbs.without_driver.iter().map(String::as_str).collect();
        add(
            format!(
                "the verbs library of the image has no driver for {}, so neither UCX nor NCCL can use {}",
                span(&nodes),
                if nodes.len() == 1 { "it" } else { "them" }
            ),
            &format!(
                "no userspace device-specific driver found for {}",
                nodes.join(" ")
            ),
            PROVIDER,
            "the image has no verbs driver for the RDMA devices that are there",
        );
    }
    if verbs.unopened > 0 {
        add(
            format!(
                "ibv_devinfo found {} that it could not open where it ran",
                counted(verbs.unopened as usize, "RDMA device")
            ),
            "Failed to open device",
            &format!(
                "{}; a user other than root must also have the right to read and write /dev/infiniband/uverbs*",
                asked::rdma(
                    container,
                    "request the RDMA resource in this worker's container, so that its device cgroup allows the nodes"
                )
            ),
            "ibv_devinfo cannot open what it finds",
        );
    }
    if drafts.is_empty() {
        return Err(Skip::not_applicable());
    }
    Ok(drafts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{hca, verdict};
    use crate::report::Status;

    const SHOWN: &str =
        "hca_id: mlx5_0\n\ttransport: InfiniBand (0)\n\t\tport: 1\n\t\t\tstate: PORT_ACTIVE (4)\n";

    #[test]
    fn the_library_must_show_what_the_kernel_opens() {
        for (text, role, status) in [
            (SHOWN, "decode", Status::Ok),
            ("No IB devices found", "decode", Status::Fail),
            ("No IB devices found", "agg", Status::Warn),
        ] {
            let mut answers = hca("mlx5_0", "4: ACTIVE", "open");
            answers.push((&ask::IBV_DEVINFO, text.to_owned()));
            assert_eq!(verdict(run, role, &answers), Ok(status), "{text:?}");
        }
    }

    #[test]
    fn without_the_tool_nothing_is_said() {
        let answers = hca("mlx5_0", "4: ACTIVE", "open");
        assert!(verdict(run, "decode", &answers).is_err());
        let mut closed = hca("mlx5_0", "4: ACTIVE", "EPERM");
        closed.push((&ask::IBV_DEVINFO, "No IB devices found".to_owned()));
        assert_eq!(verdict(run, "decode", &closed), Err(Skip::not_applicable()));
    }
}
