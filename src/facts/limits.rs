//! What a process may lock and do: `ulimit`, `/proc/<pid>/limits`, `/proc/<pid>/status`, `/proc/<pid>/uid_map`.
//!
//! Registering host memory for RDMA pins it, and pinning counts against `RLIMIT_MEMLOCK`, unless the process has
//! `CAP_IPC_LOCK` in the initial user namespace.
//! <https://github.com/torvalds/linux/blob/v6.12/drivers/infiniband/core/umem.c>

use super::transcript;
use super::{Unparsable, Why};
use std::collections::VecDeque;

/// A resource limit; the smaller one comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// At most that many bytes.
    Bytes(u64),
    /// No limit.
    Unlimited,
}

/// `RLIMIT_MEMLOCK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memlock {
    /// In force.
    pub soft: Limit,
    /// How far the process may raise it; `None` where the output shows one number.
    pub hard: Option<Limit>,
}

/// Reads whatever of `/proc/<pid>/limits`, `ulimit -a` or `ulimit -l` was pasted.
pub fn parse(text: &str) -> Result<Memlock, Unparsable> {
    let decided = |error: &Unparsable| matches!(error.why, Why::TwoPlaces { .. });
    match parse_proc_limits(text) {
        Err(error) if !decided(&error) => parse_ulimit(text),
        read => read,
    }
}

fn two_places(tool: &'static str) -> Unparsable {
    Unparsable::two_places(tool, "two different limits of locked memory")
}

/// `/proc/<pid>/limits`: soft and hard limit in bytes.
pub fn parse_proc_limits(text: &str) -> Result<Memlock, Unparsable> {
    const TOOL: &str = "/proc/self/limits";
    let mut limits = transcript::lines(text).filter_map(|line| {
        let mut words = line
            .trim()
            .strip_prefix("Max locked memory")?
            .split_whitespace();
        let soft = limit(words.next()?, 1)?;
        let hard = limit(words.next()?, 1)?;
        Some(Memlock {
            soft,
            hard: Some(hard),
        })
    });
    // A text may show it more than once.
    let first = limits.next().ok_or_else(|| Unparsable::new(TOOL, text))?;
    match limits.all(|other| other == first) {
        true => Ok(first),
        false => Err(two_places(TOOL)),
    }
}

/// `ulimit -l` (one number in KiB, or `unlimited`) and the memory line of `ulimit -a` in any shell:
/// `max locked memory (kbytes, -l) 64`, `locked memory (kbytes) 64`, `-l: locked-in-memory size (kbytes) 64`.
///
/// Of one place there may be two: the soft limit (`-Sl`, `-Sa`) and the hard one (`-Hl`, `-Ha`). The commands before them tell
/// which is which. Where only the two numbers were copied, the first is read as the soft one, unless it is the larger: should they
/// be of two places after all, the smaller is judged.
pub fn parse_ulimit(text: &str) -> Result<Memlock, Unparsable> {
    const TOOL: &str = "ulimit -l";
    let mut asked: VecDeque<Side> = VecDeque::new();
    let (mut named, mut alone) = (Vec::new(), Vec::new());
    for line in transcript::lines(text) {
        let line = line.trim();
        let command = transcript::prompt(line);
        if let Some(command) = command.or_else(|| line.starts_with("ulimit ").then_some(line)) {
            asked = command.split([';', '&', '|']).filter_map(side).collect();
            continue;
        }
        let value = line.split_whitespace().next_back().unwrap_or_default();
        let Some(limit) = limit(value, 1024) else {
            continue;
        };
        let shown = if line.contains("locked") && line.contains("mem") || line.contains("lockedmem")
        {
            &mut named
        } else if value == line {
            &mut alone
        } else {
            continue;
        };
        shown.push((asked.pop_front(), limit));
    }
    let is_alone = named.is_empty();
    let shown = if is_alone { alone } else { named };
    // As often as it is shown, it is one.
    let of = |wanted: fn(Option<Side>) -> bool| -> Vec<Limit> {
        let mut limits: Vec<Limit> = Vec::new();
        for (side, limit) in &shown {
            if wanted(*side) && !limits.contains(limit) {
                limits.push(*limit);
            }
        }
        limits
    };
    let soft = of(|side| side != Some(Side::Hard));
    let hard = of(|side| side == Some(Side::Hard));
    match (&soft[..], &hard[..]) {
        ([], []) => Err(Unparsable::new(TOOL, text)),
        ([], _) => Err(Unparsable {
            tool: TOOL,
            why: Why::Lacking {
                what: "the hard limit only, and the soft one is in force: paste what `ulimit -Sl` prints",
            },
        }),
        ([soft], []) => Ok(Memlock {
            soft: *soft,
            hard: None,
        }),
        ([soft], [hard]) if soft <= hard => Ok(Memlock {
            soft: *soft,
            hard: Some(*hard),
        }),
        ([soft, hard], [])
            if is_alone && shown.len() == 2 && soft < hard && shown[0].0.is_none() =>
        {
            Ok(Memlock {
                soft: *soft,
                hard: Some(*hard),
            })
        }
        _ => Err(two_places(TOOL)),
    }
}

/// Which limit a command of the shell prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Soft,
    Hard,
}

/// `ulimit -Hl`; without `H` it is the soft one.
fn side(command: &str) -> Option<Side> {
    let mut words = command.split_whitespace();
    let flags: String = words
        .find(|word| *word == "ulimit")
        .map(|_| words.filter(|word| word.starts_with('-')).collect())?;
    let is_hard = flags.contains('H') && !flags.contains('S');
    Some(if is_hard { Side::Hard } else { Side::Soft })
}

fn limit(word: &str, unit_bytes: u64) -> Option<Limit> {
    if word == "unlimited" {
        return Some(Limit::Unlimited);
    }
    let count: u64 = word.parse().ok()?;
    Some(Limit::Bytes(count.saturating_mul(unit_bytes)))
}

/// Effective capabilities of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The bit set. Bit numbers:
    /// <https://github.com/torvalds/linux/blob/v6.12/include/uapi/linux/capability.h>
    pub effective: u64,
}

impl Capabilities {
    /// `CAP_IPC_LOCK`, bit 14: pinning memory is not counted.
    pub fn has_ipc_lock(self) -> bool {
        self.effective >> 14 & 1 == 1
    }

    /// `CAP_SYS_RESOURCE`, bit 24: the process may raise its own limits.
    pub fn has_sys_resource(self) -> bool {
        self.effective >> 24 & 1 == 1
    }
}

/// `CapEff` of `/proc/<pid>/status`.
pub fn parse_status(text: &str) -> Result<Capabilities, Unparsable> {
    transcript::lines(text)
        .find_map(|line| {
            let bits = line.trim().strip_prefix("CapEff:")?.trim();
            u64::from_str_radix(bits, 16).ok()
        })
        .map(|effective| Capabilities { effective })
        .ok_or_else(|| Unparsable::new("/proc/self/status", text))
}

/// How user ids of a process map to those outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UidMap {
    /// Inside, outside, count.
    pub ranges: Vec<(u32, u32, u32)>,
}

impl UidMap {
    /// The initial user namespace: every id maps to itself. Elsewhere a capability does not lift the memlock limit.
    pub fn is_initial_namespace(&self) -> bool {
        self.ranges == [(0, 0, u32::MAX)]
    }
}

/// `/proc/<pid>/uid_map`.
pub fn parse_uid_map(text: &str) -> Result<UidMap, Unparsable> {
    let mut ranges = Vec::new();
    for line in transcript::lines(text) {
        let numbers: Option<Vec<u32>> = line.split_whitespace().map(|n| n.parse().ok()).collect();
        match numbers.as_deref() {
            Some([]) => {}
            Some(&[inside, outside, count]) => ranges.push((inside, outside, count)),
            _ => return Err(Unparsable::new("/proc/self/uid_map", text)),
        }
    }
    if ranges.is_empty() {
        return Err(Unparsable::new("/proc/self/uid_map", text));
    }
    Ok(UidMap { ranges })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_and_the_kernel_are_understood() {
        let kib = |n: u64| Limit::Bytes(n * 1024);
        for (name, text, soft, hard) in [
            ("ulimit -l", "8192\n", kib(8192), None),
            ("ulimit -l", "unlimited\n", Limit::Unlimited, None),
            // Debian 12, soft-RoCE machine.
            (
                "proc",
                "Limit   Soft Limit   Hard Limit   Units
Max locked memory         65536                unlimited            bytes     
Max file locks            unlimited            unlimited            locks\n",
                Limit::Bytes(65536),
                Some(Limit::Unlimited),
            ),
            (
                "bash 4",
                "data seg size           (kbytes, -d) unlimited
max locked memory       (kbytes, -l) 64
max memory size         (kbytes, -m) unlimited\n",
                kib(64),
                None,
            ),
            (
                "dash",
                "locked memory (kbytes)         8192\n",
                kib(8192),
                None,
            ),
            (
                "zsh",
                "-l: locked-in-memory size (kbytes)  64\n",
                kib(64),
                None,
            ),
        ] {
            assert_eq!(parse(text).unwrap(), Memlock { soft, hard }, "{name}");
        }
        for text in ["", "max memory size (kbytes, -m) unlimited\n", "many\n"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn soft_and_hard_limit_of_one_place_are_one() {
        let (small, unlimited) = (Limit::Bytes(8192 << 10), Limit::Unlimited);
        let locked =
            |value: &str| format!("open files (-n) 1024\nmax locked memory (kbytes, -l) {value}\n");
        for (text, wanted) in [
            (
                "8192\nunlimited\n".to_owned(),
                Some((small, Some(unlimited))),
            ),
            (
                "$ ulimit -Sl\n8192\n$ ulimit -Hl\nunlimited\n".to_owned(),
                Some((small, Some(unlimited))),
            ),
            (
                "u@h:~$ ulimit -Hl; ulimit -Sl\nunlimited\n8192\n".to_owned(),
                Some((small, Some(unlimited))),
            ),
            (
                format!(
                    "$ ulimit -a\n{}$ ulimit -H -a\n{}",
                    locked("8192"),
                    locked("unlimited")
                ),
                Some((small, Some(unlimited))),
            ),
            ("$ ulimit -l\n8192\n".to_owned(), Some((small, None))),
            // A soft limit never exceeds the hard one.
            (
                "$ ulimit -Sl\nunlimited\n$ ulimit -Hl\n8192\n".to_owned(),
                None,
            ),
            (
                "$ ulimit -l\n8192\n$ ulimit -l\nunlimited\n".to_owned(),
                None,
            ),
            ("8192\n16384\nunlimited\n".to_owned(), None),
            ("8192\nunlimited\n8192\nunlimited\n".to_owned(), None),
        ] {
            let read = parse(&text);
            match wanted {
                Some((soft, hard)) => assert_eq!(read.unwrap(), Memlock { soft, hard }, "{text:?}"),
                None => assert!(
                    read.unwrap_err().to_string().contains("two places"),
                    "{text:?}"
                ),
            }
        }
        let hard = parse("$ ulimit -Hl\nunlimited\n").unwrap_err();
        assert!(hard.to_string().contains("the hard limit only"), "{hard}");
    }

    #[test]
    fn two_places_in_one_text_are_refused() {
        let proc = |soft: &str| format!("Max locked memory  {soft}  unlimited  bytes\n");
        for (text, is_one) in [
            ("unlimited\n8192\n".to_owned(), false),
            ("8192\n8192\n".to_owned(), true),
            (
                "max locked memory (kbytes, -l) 64\nmax locked memory (kbytes, -l) unlimited\n"
                    .to_owned(),
                false,
            ),
            (proc("65536") + &proc("unlimited"), false),
            (proc("65536") + &proc("65536"), true),
        ] {
            match parse(&text) {
                Ok(_) => assert!(is_one, "{text:?}"),
                Err(error) => {
                    assert!(
                        !is_one && error.to_string().contains("two places"),
                        "{error}"
                    );
                }
            }
        }
    }

    #[test]
    fn capabilities_are_bits() {
        // containerd's default set, and one with IPC_LOCK added.
        let default = parse_status("Name:\tsh\nCapEff:\t00000000a80425fb\n").unwrap();
        assert!(!default.has_ipc_lock() && !default.has_sys_resource());
        let locked = parse_status("CapEff:\t00000000a80465fb\n").unwrap();
        assert!(locked.has_ipc_lock());
        let all = parse_status("CapEff:\t000001ffffffffff\n").unwrap();
        assert!(all.has_sys_resource());
        assert!(parse_status("CapEff:\tnone\n").is_err());
    }

    #[test]
    fn the_initial_namespace_maps_everything_to_itself() {
        let initial = parse_uid_map("         0          0 4294967295\n").unwrap();
        assert!(initial.is_initial_namespace());
        let nested = parse_uid_map("         0     100000      65536\n").unwrap();
        assert!(!nested.is_initial_namespace());
        assert!(parse_uid_map("\n").is_err());
        assert!(parse_uid_map("a b c\n").is_err());
    }
}
