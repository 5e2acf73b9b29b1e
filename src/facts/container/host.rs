//! Kernel, machine, modules, IOMMU and memory file systems.

use super::answers::{Seen, first, list, observed, pairs, tool, whole};
use crate::ask;
use crate::facts::dev_shm::{self, Shm};
use crate::facts::modules::{self, Modules, Presence};
use crate::facts::transcript::{excerpt, small};
use crate::observed::{Observed, Skip};
use crate::report::{Evidence, SkipReason};
use crate::snapshot::Snapshot;
use std::collections::BTreeMap;

/// The host as the container sees it.
#[derive(Debug, Clone)]
pub struct Host {
    /// Release of the kernel.
    pub kernel: Observed<Seen<Kernel>>,
    /// Architecture: `x86_64`, `aarch64`.
    pub architecture: Observed<Seen<String>>,
    /// First processor.
    pub cpu: Observed<Seen<Cpu>>,
    /// Vendor and product of the machine.
    pub machine: Observed<Seen<Machine>>,
    /// Rows of the module list.
    pub modules: Observed<Seen<Modules>>,
    /// Modules and built-in parts by name, with their version, of those that are looked for.
    pub module_versions: Observed<Seen<BTreeMap<String, Option<String>>>>,
    /// Peer memory clients of the kernel.
    pub memory_peers: Observed<Seen<Vec<String>>>,
    /// Words of the kernel's command line about the IOMMU.
    pub iommu_words: Observed<Seen<Vec<String>>>,
    /// IOMMU units.
    pub iommu_units: Observed<Seen<Vec<String>>>,
    /// `/dev/shm`.
    pub shm: Observed<Seen<Shm>>,
    /// Limit of the container on memory, in bytes; `None` where there is no limit.
    pub memory_limit: Observed<Seen<Option<u64>>>,
}

/// Release of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// As written: `5.15.0-1053-nvidia`.
    pub release: String,
    /// First two numbers.
    pub version: (u32, u32),
}

/// First processor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Vendor, or implementer on Arm.
    pub vendor: Option<String>,
    /// Model, or part on Arm.
    pub model: Option<String>,
    /// The processor says that it runs under a hypervisor; `None` on architectures that do not say.
    pub hypervisor: Option<bool>,
}

/// The machine by its firmware.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Vendor: `Amazon EC2`.
    pub vendor: Option<String>,
    /// Product: `p5.48xlarge`.
    pub product: Option<String>,
}

impl Host {
    pub(super) fn read(snapshot: &Snapshot) -> Self {
        Self {
            kernel: tool(snapshot, &ask::KERNEL, kernel),
            architecture: tool(snapshot, &ask::ARCHITECTURE, |text| {
                let word = text.split_whitespace().next();
                word.map(excerpt).ok_or_else(|| unparsable("uname -m"))
            }),
            cpu: list(snapshot, &ask::CPU, cpu),
            machine: list(snapshot, &ask::MACHINE, |text| Machine {
                vendor: field(text, "sys_vendor"),
                product: field(text, "product_name"),
            }),
            modules: first(vec![
                proc_modules(snapshot),
                tool(snapshot, &ask::LSMOD, modules::parse),
            ]),
            module_versions: list(snapshot, &ask::MODULE_VERSIONS, module_versions),
            memory_peers: list(snapshot, &ask::MEMORY_PEERS, |text| {
                let names = pairs(text).filter_map(|(path, _)| path.rsplit('/').nth(1));
                names.map(excerpt).collect()
            }),
            iommu_words: list(snapshot, &ask::CMDLINE, lines),
            iommu_units: list(snapshot, &ask::IOMMU, lines),
            shm: first(vec![
                tool(snapshot, &ask::SHM, dev_shm::parse),
                tool(snapshot, &ask::MOUNTS, dev_shm::parse_mounts),
            ]),
            memory_limit: list(snapshot, &ask::CGROUP, memory_limit),
        }
    }

    /// A module is loaded. By sysfs, which needs no tool, and by the module list.
    pub fn has_module(&self, name: &str) -> Result<bool, Skip> {
        let listed = self.modules.known().map(|m| m.presence(name));
        let shown = self.module_versions.known().map(|m| m.contains_key(name));
        match (listed, shown) {
            (Some(Presence::Loaded | Presence::LoadedByUse), _) | (_, Some(true)) => Ok(true),
            (Some(Presence::Absent), _) | (_, Some(false)) => Ok(false),
            (Some(Presence::Unknown), None) => Err(Skip::new(
                SkipReason::NotCollected,
                format!("the module list is partial and does not say whether {name} is loaded"),
            )),
            (None, None) => Err(self
                .modules
                .get()
                .err()
                .unwrap_or_else(Skip::not_applicable)),
        }
    }

    /// Ways of peer memory that are there. Empty: looked for, and none is.
    pub fn peer_memory(&self) -> Result<(Vec<String>, Vec<Evidence>), Skip> {
        let mut found = Vec::new();
        let mut evidence = Vec::new();
        let mut looked = false;
        if let Some(versions) = self.module_versions.known() {
            looked = true;
            let own: Vec<String> = PEER_MODULES
                .iter()
                .filter(|name| versions.contains_key(**name))
                .map(|name| format!("/sys/module/{name}"))
                .collect();
            evidence.push(versions.evidence(or_none(&own, "no peer memory module")));
            found.extend(own);
        }
        if let Some(peers) = self.memory_peers.known() {
            let own: Vec<String> = peers
                .iter()
                .map(|name| format!("/sys/kernel/mm/memory_peers/{name}"))
                .collect();
            if !own.is_empty() {
                evidence.push(peers.evidence(own.iter().map(String::as_str)));
            }
            found.extend(own);
        }
        if let Some(modules) = self.modules.known() {
            let presence = |name: &&str| modules.presence(name);
            let loaded =
                |name: &&&str| matches!(presence(name), Presence::Loaded | Presence::LoadedByUse);
            let own: Vec<String> = PEER_MODULES
                .iter()
                .filter(loaded)
                .map(|name| (*name).to_owned())
                .collect();
            looked |= PEER_MODULES
                .iter()
                .all(|n| presence(n) != Presence::Unknown);
            evidence.push(modules.evidence(or_none(&own, "no peer memory module")));
            if found.is_empty() {
                found.extend(own);
            }
        }
        if found.is_empty() && !looked && self.modules.known().is_some() {
            let detail = "the module list is partial and does not say whether a peer memory module is loaded; \
                          paste all of lsmod";
            return Err(Skip::new(SkipReason::NotCollected, detail));
        }
        if found.is_empty() && !looked {
            let sources = [self.modules.get().err(), self.module_versions.get().err()];
            let mut skips = sources.into_iter().flatten();
            // What a person could have pasted says more than what they could not.
            let skip = skips.clone().find(|skip| !skip.inputs.is_empty());
            let skip = skip.or_else(|| skips.next_back());
            return Err(skip.unwrap_or_else(Skip::not_applicable));
        }
        Ok((found, evidence))
    }

    /// A Grace CPU, whose GPUs and NICs meet in another way than on PCIe machines.
    pub fn is_arm(&self) -> Option<bool> {
        self.architecture
            .known()
            .map(|word| word.starts_with("aarch64") || word.starts_with("arm"))
    }
}

/// Modules through which the memory of a GPU can be registered.
/// <https://github.com/openucx/ucx/blob/v1.20.0/src/uct/ib/base/ib_md.c>
pub const PEER_MODULES: &[&str] = &["nvidia_peermem", "nv_peer_mem", "efa_nv_peermem"];

fn or_none<'a>(found: &'a [String], none: &'a str) -> Vec<&'a str> {
    if found.is_empty() {
        vec![none]
    } else {
        found.iter().map(String::as_str).collect()
    }
}

fn unparsable(what: &str) -> Skip {
    Skip::new(
        SkipReason::Unparsable,
        format!("the answer of {what} was not understood"),
    )
}

fn lines(text: &str) -> Vec<String> {
    text.lines()
        .map(excerpt)
        .filter(|line| !line.is_empty())
        .collect()
}

/// The last line `.../name: value`.
fn field(text: &str, name: &str) -> Option<String> {
    pairs(text)
        .find(|(path, _)| path.rsplit('/').next() == Some(name))
        .map(|(_, value)| excerpt(value))
}

/// `5.15.0-1053-nvidia`, also within the output of `uname -a`.
fn kernel(text: &str) -> Result<Kernel, Skip> {
    text.split_whitespace()
        .find_map(|word| {
            let (major, rest) = word.split_once('.')?;
            Some(Kernel {
                release: excerpt(word),
                version: (major.parse().ok()?, small(rest)?),
            })
        })
        .ok_or_else(|| unparsable("/proc/sys/kernel/osrelease"))
}

fn cpu(text: &str) -> Cpu {
    let mut cpu = Cpu::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        match key.trim() {
            "vendor_id" | "CPU implementer" => cpu.vendor = Some(excerpt(value)),
            "model name" | "CPU part" => cpu.model = Some(excerpt(value)),
            "hypervisor" => cpu.hypervisor = Some(value == "yes"),
            _ => {}
        }
    }
    cpu
}

/// The probe chooses the rows, so an empty answer says that none of them is loaded.
fn proc_modules(snapshot: &Snapshot) -> Observed<Seen<Modules>> {
    let read = || {
        let text = whole(snapshot, &ask::MODULES)?;
        let mut rows = if text.trim().is_empty() {
            Modules::default()
        } else {
            modules::parse(text)?
        };
        rows.is_whole = true;
        Ok(Seen::new(&ask::MODULES, rows))
    };
    observed(read())
}

/// `/sys/module/X/version: 1.2` or `/sys/module/X: present`.
fn module_versions(text: &str) -> BTreeMap<String, Option<String>> {
    pairs(text)
        .filter_map(|(path, value)| {
            let rest = path.strip_prefix("/sys/module/")?;
            let (name, version) = match rest.strip_suffix("/version") {
                Some(name) => (name, Some(excerpt(value))),
                None => (rest, None),
            };
            Some((excerpt(name), version))
        })
        .collect()
}

fn memory_limit(text: &str) -> Option<u64> {
    let value = field(text, "memory.max").or_else(|| field(text, "memory.limit_in_bytes"))?;
    // Version 1 shows "no limit" as the largest multiple of a page.
    value.parse().ok().filter(|bytes| *bytes < 1 << 62)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::{NOTHING, container};

    #[test]
    fn an_empty_list_of_modules_is_a_list() {
        let host = Host::read(&container("decode", &[(&ask::MODULES, "")]));
        assert_eq!(host.has_module("gdrdrv"), Ok(false));
        let (found, evidence) = host.peer_memory().unwrap();
        assert!(found.is_empty() && evidence.len() == 1);
        let host = Host::read(&container("decode", NOTHING));
        assert!(host.has_module("gdrdrv").is_err() && host.peer_memory().is_err());
        let by_grep = [(&ask::LSMOD, "$ lsmod | grep gdrdrv\n")];
        let host = Host::read(&container("decode", &by_grep));
        assert_eq!(host.has_module("gdrdrv"), Ok(false));
        assert!(host.peer_memory().is_err());
    }

    #[test]
    fn peer_memory_has_several_signs() {
        for (ask, text) in [
            (
                &ask::MODULE_VERSIONS,
                "/sys/module/nvidia_peermem/version: 580.95.05",
            ),
            (
                &ask::MEMORY_PEERS,
                "/sys/kernel/mm/memory_peers/nv_mem/version: 1",
            ),
            (
                &ask::MODULES,
                "nvidia_peermem 16384 0 - Live 0x0000000000000000",
            ),
        ] {
            let host = Host::read(&container("decode", &[(ask, text)]));
            assert_eq!(host.peer_memory().unwrap().0.len(), 1, "{text}");
        }
    }

    #[test]
    fn releases_are_compared_by_their_numbers() {
        for (text, version) in [
            ("5.15.0-1053-nvidia\n", (5, 15)),
            ("Linux host 6.1.0-57-amd64 #1 SMP", (6, 1)),
        ] {
            assert_eq!(kernel(text).unwrap().version, version, "{text}");
        }
        assert!(kernel("unknown").is_err());
    }
}
