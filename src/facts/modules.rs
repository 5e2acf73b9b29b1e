//! Kernel modules: `lsmod` and `/proc/modules`.
//!
//! People paste `lsmod | grep x`, so a missing row proves nothing unless the list is whole or the grep would have shown
//! it. A module can also be seen only in the "used by" column of another.

use super::Unparsable;
use super::transcript::{self, excerpt};
use std::collections::{BTreeMap, BTreeSet};

/// The modules that an output shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Modules {
    /// Rows by module name; `-` in a name is `_`, as in the kernel.
    pub rows: BTreeMap<String, Module>,
    /// The list is whole: it has the header of `lsmod` or the form of `/proc/modules`, and no grep was seen.
    pub is_whole: bool,
    /// Patterns of `lsmod | grep PATTERN` that the transcript shows.
    pub greps: BTreeSet<String>,
    /// Lines that were not understood.
    pub unread_lines: u32,
}

/// One row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Module {
    /// Size in memory, in bytes.
    pub size_bytes: u64,
    /// How many things use it; `None` where the kernel cannot unload modules.
    pub uses: Option<u32>,
    /// Modules that use it.
    pub used_by: Vec<String>,
}

/// What is known about one module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It has a row.
    Loaded,
    /// It has no row here and another module names it as its user, so it is loaded.
    LoadedByUse,
    /// A whole list, or a grep that would have shown it, does not have it.
    Absent,
    /// The list is partial and silent.
    Unknown,
}

impl Modules {
    /// What is known about a module.
    pub fn presence(&self, name: &str) -> Presence {
        if self.rows.contains_key(name) {
            Presence::Loaded
        } else if !self.users_named(name).is_empty() {
            Presence::LoadedByUse
        } else if self.is_whole || self.greps.iter().any(|pattern| name.contains(pattern)) {
            Presence::Absent
        } else {
            Presence::Unknown
        }
    }

    /// The modules that list `name` as their user: `nvidia_peermem` under `ib_core` or `ib_uverbs` is bound to the RDMA
    /// stack.
    pub fn users_named(&self, name: &str) -> Vec<&str> {
        self.rows
            .iter()
            .filter(|(_, module)| module.used_by.iter().any(|user| user == name))
            .map(|(used, _)| used.as_str())
            .collect()
    }
}

/// Reads either format.
pub fn parse(text: &str) -> Result<Modules, Unparsable> {
    let mut modules = Modules::default();
    let (mut headed, mut proc_rows) = (false, 0);
    for line in transcript::lines(text) {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if let Some(command) = transcript::prompt(line) {
            modules.greps.extend(grep(command));
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&"Module") && words.get(1) == Some(&"Size") {
            headed = true;
        } else if let Some((name, module)) = row(&words) {
            // `/proc/modules` goes on with state and address.
            proc_rows += usize::from(words.len() >= 6);
            // How many things use it may change from one moment to the next.
            let differs = |known: &Module| {
                known.size_bytes != module.size_bytes || known.used_by != module.used_by
            };
            if modules.rows.get(&name).is_some_and(differs) {
                let what = format!("the module {name} twice, and not the same");
                return Err(Unparsable::two_places("lsmod", &what));
            }
            modules.rows.insert(name, module);
        } else {
            modules.unread_lines += 1;
        }
    }
    modules.is_whole =
        modules.greps.is_empty() && (headed || proc_rows > 0 && proc_rows == modules.rows.len());
    if modules.rows.is_empty() && modules.greps.is_empty() && !headed {
        return Err(Unparsable::new("lsmod", text));
    }
    Ok(modules)
}

/// `lsmod`: `name size uses a,b`; `/proc/modules`: `name size uses a,b, Live 0x0`, with `-` for no user.
fn row(words: &[&str]) -> Option<(String, Module)> {
    let [name, size, uses, rest @ ..] = words else {
        return None;
    };
    let uses = match *uses {
        "-" => None,
        count => Some(count.parse().ok()?),
    };
    let used_by = match rest.first() {
        None | Some(&"-") => Vec::new(),
        Some(names) => names
            .split(',')
            .filter(|user| !user.is_empty() && !user.starts_with('['))
            .map(module_name)
            .collect(),
    };
    let module = Module {
        size_bytes: size.parse().ok()?,
        uses,
        used_by,
    };
    Some((module_name(name), module))
}

fn module_name(text: &str) -> String {
    excerpt(text).replace('-', "_")
}

/// The pattern of `lsmod | grep PATTERN`, when it is a plain word.
fn grep(command: &str) -> Option<String> {
    let (list, grep) = command.split_once('|')?;
    if list.trim() != "lsmod" && list.trim() != "cat /proc/modules" {
        return None;
    }
    let pattern = grep.trim().strip_prefix("grep")?.trim();
    let pattern = pattern.trim_matches(['"', '\'']);
    let plain = !pattern.is_empty()
        && pattern
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_');
    plain.then(|| pattern.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // kmod 30 in the soft-RoCE machine, cut.
    const LSMOD: &str = "Module                  Size  Used by
rdma_rxe              135168  0
udp_tunnel             28672  1 rdma_rxe
mlx5_ib               413696  0
";
    // Linux 6.1 in the soft-RoCE machine, cut.
    const PROC: &str = "rdma_rxe 135168 0 - Live 0xffffffffc05ea000 (E)
mlx5_core 1703936 1 mlx5_ib, Live 0xffffffffc0432000 (E)
";

    #[test]
    fn whole_lists_prove_absence() {
        for text in [LSMOD, PROC] {
            let modules = parse(text).unwrap();
            assert!(modules.is_whole);
            assert_eq!(modules.presence("rdma_rxe"), Presence::Loaded);
            assert_eq!(modules.presence("nvidia_peermem"), Presence::Absent);
        }
        let modules = parse(PROC).unwrap();
        assert_eq!(modules.rows["mlx5_core"].used_by, ["mlx5_ib"]);
        assert_eq!(modules.presence("mlx5_ib"), Presence::LoadedByUse);
        assert_eq!(modules.rows["rdma_rxe"].size_bytes, 135_168);
    }

    #[test]
    fn a_grep_proves_the_absence_of_what_it_asked_for() {
        let text = "[u@n ~]$ lsmod | grep nv_peer_mem
[u@n ~]$ lsmod | grep -i gdr
nvidia 56463360 147 nvidia_uvm,nvidia_peermem
";
        let modules = parse(text).unwrap();
        assert!(!modules.is_whole);
        assert_eq!(modules.presence("nv_peer_mem"), Presence::Absent);
        assert_eq!(modules.presence("nvidia_peermem"), Presence::LoadedByUse);
        assert_eq!(modules.presence("gdrdrv"), Presence::Unknown);
        assert_eq!(modules.users_named("nvidia_peermem"), ["nvidia"]);
    }

    #[test]
    fn two_places_in_one_text_are_refused() {
        let users = LSMOD.replace("1 rdma_rxe", "0");
        let size = LSMOD.replace("413696", "413697");
        for (other, is_one) in [
            (LSMOD, true),
            (LSMOD.replace("413696  0", "413696  7").as_str(), true),
            (users.as_str(), false),
            (size.as_str(), false),
        ] {
            match parse(&format!("{LSMOD}{other}")) {
                Ok(modules) => assert!(is_one && modules.rows.len() == 3, "{other}"),
                Err(error) => {
                    let said = error.to_string();
                    assert!(!is_one && said.contains("two places"), "{said}");
                }
            }
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "lsmod: command not found", "hello world again"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
