//! Whether a pasted text is what it was handed in as.
//!
//! Readers of kernel files and logs are total: they find nothing in a foreign text, and nothing would then look like "none".
//! A person who mixes two files up must hear of it.

use super::container::software;
use super::unparsable::Why;
use super::{
    Unparsable, dev_shm, dmesg, ibdev2netdev, ibstat, ibstatus, ibv_devices, ibv_devinfo, limits,
    modules, nccl_log, nvidia_smi_csv, nvidia_smi_nvlink, nvidia_smi_q, nvidia_smi_topo, rdma_link,
    show_gids, transcript, ucx_info, ucx_log,
};
use crate::ask::{self, Ask};
use std::collections::BTreeMap;

/// Says what is wrong with a text as the answer to this ask. A tool that says that it could not run has answered.
pub fn refuse(ask: &Ask, text: &str) -> Option<String> {
    if is_ucx_configuration(text) {
        return Some(
            "is what `ucx_info -c` prints: the settings of UCX with all of its defaults, which nobody need have set; paste what \
             `env` prints where the worker runs (--input env=FILE), or `ucx_info -d` (--input ucx-info-devices=FILE)"
                .to_owned(),
        );
    }
    let unparsable = recognise(ask, text).err()?;
    let name = ask::paste_word(ask).unwrap_or(ask.short());
    match &unparsable.why {
        Why::Failed { .. } => None,
        Why::Empty => Some(format!("is empty: there is no {name} in it")),
        Why::Lacking { what } => Some(format!("shows {what}")),
        Why::TwoPlaces { what } => Some(format!(
            "holds two places in one paste: {what}; hand in the {name} of one place"
        )),
        // Its reader refuses what ends within a device, so that none behind the cut counts as absent.
        Why::Foreign { .. } if ask.id == ask::IBV_DEVINFO.id && text.contains("ca_id:") => Some(
            format!("is a part of {name} that ends within a device: paste all of it"),
        ),
        // Nothing of it is quoted: a file handed in by mistake may be anything, a note with a token in it too.
        Why::Foreign { .. } => {
            let hint = reads_like(text).filter(|other| *other != ask.id);
            let hint = match (hint, before_each_line(text)) {
                (Some(other), _) => format!("it reads like --input {other}=FILE"),
                (None, Some(what)) => {
                    format!("each line begins with {what}: paste what stands behind it")
                }
                (None, None) => "paste all that it prints, from its first line on".to_owned(),
            };
            Some(format!("is no output of {name}; {hint}"))
        }
    }
}

/// What another tool has put before every line, in words: none of it is quoted.
fn before_each_line(text: &str) -> Option<&'static str> {
    let lines: Vec<_> = transcript::lines(text).collect();
    let lines = || lines.iter().map(|line| line.trim_start());
    let lines = || lines().filter(|line| !line.is_empty());
    let each = |has: fn(&str) -> bool| lines().count() > 1 && lines().all(has);
    if each(|line| line.starts_with('[') && line.contains("] ")) {
        return Some("a name or a time in brackets (`kubectl logs --prefix` writes one)");
    }
    if each(|line| line.contains(" | ")) {
        return Some("a name and a bar (`docker compose logs` writes one)");
    }
    each(|line| line.starts_with(|c: char| c.is_ascii_digit())).then_some("a number or a time")
}

/// The environment as a person pastes it, a variable per line: `cat /proc/1/environ` separates them by NUL, mail quotes them
/// and `grep --color` paints them.
///
/// # Errors
/// When a line holds the name of a catalogued variable and is not understood: leaving it out would judge a default that is
/// not in force.
pub fn environment(text: &str) -> Result<String, String> {
    let plain = text.replace('\0', "\n");
    let mut out = String::new();
    let mut values: BTreeMap<&str, String> = BTreeMap::new();
    let padded = is_padded(&plain);
    for line in transcript::lines(&plain) {
        let line = match padded {
            true => line.trim_end(),
            false => &line,
        };
        for line in one_each(line) {
            let (known, name) = setting(line);
            if !known && let Some(name) = name {
                return Err(format!(
                    "holds a line that names {name} and is not understood: paste what `env` prints, one NAME=value per line"
                ));
            }
            if let Some((name, value)) = transcript::assignment(line)
                && let Some(variable) = crate::catalogue::find(name.trim())
                && *values
                    .entry(variable.name)
                    .or_insert_with(|| value.to_string())
                    != *value
            {
                return Err(format!(
                    "holds {} twice, with different values: paste the environment of one process",
                    variable.name
                ));
            }
            out.push_str(line);
            out.push('\n');
        }
    }
    Ok(out)
}

/// All lines end in blanks: a terminal that a text is copied from fills them, and they say nothing of any value.
fn is_padded(text: &str) -> bool {
    let lines = || transcript::lines(text).filter(|line| !line.trim().is_empty());
    lines().count() > 1 && lines().all(|line| line.ends_with([' ', '\t']))
}

/// Variables that stand in one line, as before a command: `A=1 B=2`. A value with blanks stays whole.
fn one_each(line: &str) -> Vec<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let all = words
        .iter()
        .all(|word| word.split_once('=').is_some_and(|(name, _)| is_name(name)));
    if all && words.len() > 1 {
        words
    } else {
        vec![line]
    }
}

/// Whether a line is understood, and the catalogued variable that it names as a word.
fn setting(line: &str) -> (bool, Option<&'static str>) {
    let trimmed = line.trim();
    let understood = trimmed.is_empty()
        || trimmed.starts_with('#')
        || transcript::prompt(trimmed).is_some()
        || transcript::assignment(trimmed).is_some_and(|(name, _)| is_name(name.trim()))
        || transcript::listed(trimmed).is_some_and(is_name);
    if understood {
        return (true, None);
    }
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let name = trimmed.split(word).find_map(crate::catalogue::find);
    (false, name.map(|variable| variable.name))
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The reader of an output: an error where it understands nothing.
type Reader = fn(&str) -> Result<(), Unparsable>;

/// Readers that take no text but that of their own tool.
const STRICT: &[(&Ask, Reader)] = &[
    (&ask::IBV_DEVINFO, |t| ibv_devinfo::parse(t).map(drop)),
    (&ask::IBSTAT, |t| ibstat::parse(t).map(drop)),
    (&ask::IBSTATUS, |t| ibstatus::parse(t).map(drop)),
    (&ask::SHOW_GIDS, |t| show_gids::parse(t).map(drop)),
    (&ask::IBDEV2NETDEV, |t| ibdev2netdev::parse(t).map(drop)),
    (&ask::RDMA_LINK, |t| rdma_link::parse(t).map(drop)),
    (&ask::NVIDIA_SMI_TOPO, |t| {
        nvidia_smi_topo::parse(t).map(drop)
    }),
    (&ask::NVIDIA_SMI_NVLINK, |t| {
        nvidia_smi_nvlink::parse(t).map(drop)
    }),
    (&ask::SMI_Q, |t| nvidia_smi_q::parse(t).map(drop)),
    (&ask::UCX_INFO, |t| ucx_info::parse(t).map(drop)),
    (&ask::NCCL_LOG, |t| {
        holds(nccl_log::parse(t).lines > 0, "NCCL with its log on", t)
    }),
    (&ask::UCX_LOG, |t| {
        holds(ucx_log::parse(t).lines > 0, "UCX with its log on", t)
    }),
    (&ask::LSMOD, |t| modules::parse(t).map(drop)),
    (&ask::DMESG, |t| holds(dmesg::is_kernel_log(t), "dmesg", t)),
];

/// Readers of texts so plain that others may look like them.
const PLAIN: &[(&Ask, Reader)] = &[
    (&ask::IBV_DEVICES, |t| ibv_devices::parse(t).map(drop)),
    (&ask::NVIDIA_SMI_FABRIC, |t| {
        nvidia_smi_q::parse(t).map(drop)
    }),
    (&ask::NVIDIA_SMI_QUERY, |t| {
        nvidia_smi_csv::parse(t).map(drop)
    }),
    (&ask::UCX_INFO_DEVICES, |t| ucx_info::parse(t).map(drop)),
    (&ask::UCX_INFO_VERSION, |t| ucx_info::parse(t).map(drop)),
    (&ask::ULIMIT, |t| limits::parse(t).map(drop)),
    (&ask::LIMITS, |t| limits::parse(t).map(drop)),
    (&ask::STATUS, |t| limits::parse_status(t).map(drop)),
    (&ask::SHM, |t| dev_shm::parse(t).map(drop)),
    (&ask::ENVIRONMENT, |t| holds(is_environment(t), "env", t)),
    (&ask::KERNEL, |t| holds(is_kernel(t), "uname", t)),
    (&ask::ARCHITECTURE, |t| {
        holds(t.split_whitespace().count() == 1, "uname -m", t)
    }),
    (&ask::IP_ADDR, |t| {
        holds(
            t.contains(" inet ") || t.contains(" inet6 ") || t.contains("\tinet "),
            "ip addr",
            t,
        )
    }),
    (&ask::FI_INFO_EFA, |t| {
        holds(
            t.contains("provider:") || t.contains("fi_getinfo"),
            "fi_info",
            t,
        )
    }),
    (&ask::PYTHON_PACKAGES, |t| {
        holds(
            t.contains(".dist-info") || software::pip_list(t).is_some_and(|rows| !rows.is_empty()),
            "pip list with its header",
            t,
        )
    }),
];

fn holds(it: bool, tool: &'static str, text: &str) -> Result<(), Unparsable> {
    if it {
        Ok(())
    } else {
        Err(Unparsable::new(tool, text))
    }
}

fn recognise(ask: &Ask, text: &str) -> Result<(), Unparsable> {
    // A process has some environment: whoever pastes none of it left out what is not of transport, and nothing was left.
    // Comments are those of docs/paste-env.sh and of recordings: another output may begin each line with `#`.
    let is_blank = |line: &str| {
        let known = [
            "# catalogued variables of process ",
            "# withheld ",
            "# process ",
        ];
        line.trim().is_empty() || known.iter().any(|begin| line.starts_with(begin))
    };
    if ask.id == ask::ENVIRONMENT.id && text.lines().all(is_blank) {
        return Ok(());
    }
    if let Some(what) = places(ask, text) {
        return Err(Unparsable::two_places(ask.shown_as, &what));
    }
    // A reader may take silence for an answer; a file with nothing in it is none.
    if text.trim().is_empty() {
        return Err(Unparsable::new("such", text));
    }
    let readers = STRICT.iter().chain(PLAIN);
    let reader = readers.clone().find(|(of, _)| of.id == ask.id);
    reader.map_or(Ok(()), |(_, read)| read(text))
}

/// Commands by which another place is asked.
const CARRIERS: &[&str] = &[
    "kubectl", "oc", "k", "ssh", "docker", "podman", "nerdctl", "crictl",
];

/// Two places in which the tool ran, where its commands were copied with its outputs: the pods of `kubectl exec` and the like,
/// else the hosts in the prompts. Outputs of two places need not contradict each other in any line.
fn places(ask: &Ask, text: &str) -> Option<String> {
    let program = ask.shown_as.split_whitespace().next()?;
    let (mut asked, mut hosts) = (Vec::new(), Vec::new());
    for line in transcript::lines(text) {
        let line = line.trim();
        let command = transcript::prompt(line).unwrap_or(line);
        let words: Vec<&str> = command
            .split_whitespace()
            .map(|word| word.trim_matches(['\'', '"']))
            .collect();
        let Some(at) = words.iter().position(|word| *word == program) else {
            continue;
        };
        let carrier = words[..at].iter().position(|word| CARRIERS.contains(word));
        if let Some(carrier) = carrier {
            asked.push(place(&words[carrier + 1..at]));
        } else if let Some(host) = transcript::prompt(line).and_then(|_| host(line)) {
            hosts.push((host.to_owned(), host.to_owned()));
        }
    }
    [asked, hosts].iter().find_map(|places| {
        let first = places.first()?;
        let other = places.iter().find(|place| place.0 != first.0)?;
        let (one, two) = (&first.1, &other.1);
        Some(if one == two {
            "commands that differ".to_owned()
        } else {
            format!("{one} and {two}")
        })
    })
}

/// The place in the words between a carrier and the tool, `-n x exec pod-a --`: all of it to tell places apart, and what may
/// be shown of it. The word after any other option may be a token, and `-e TOKEN=x` is a setting.
fn place(words: &[&str]) -> (String, String) {
    const NAMING: &[&str] = &[
        "-n",
        "--namespace",
        "-c",
        "--container",
        "--context",
        "-i",
        "-t",
        "-it",
        "-ti",
        "--stdin",
        "--tty",
        "--",
    ];
    let (mut all, mut shown): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut before = "--";
    for &word in words {
        if !word.starts_with('-') && word != "exec" && !word.contains('=') {
            all.push(word);
            if !before.starts_with('-') || before.contains('=') || NAMING.contains(&before) {
                shown.push(word);
            }
        }
        before = word;
    }
    all.sort_unstable();
    shown.sort_unstable();
    (all.join(" "), shown.join(" "))
}

/// The host in `user@host:~$` and `[user@host ~]$`.
fn host(prompt: &str) -> Option<&str> {
    let (_, rest) = prompt.split_once('@')?;
    let host = rest.split([':', ' ', ']', '$', '#']).next()?;
    (!host.is_empty()).then_some(host)
}

/// The output that a text is, where its form says so.
fn reads_like(text: &str) -> Option<&'static str> {
    let like = STRICT.iter().find(|(_, read)| read(text).is_ok());
    let like = like.and_then(|(of, _)| ask::paste_word(of));
    like.or_else(|| is_environment(text).then_some("env"))
}

/// Most lines are `NAME=value`; a value may go on over several.
fn is_environment(text: &str) -> bool {
    let (mut settings, mut others) = (0_usize, 0_usize);
    for line in transcript::lines(text) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || transcript::prompt(line).is_some() {
            continue;
        }
        match transcript::assignment(line) {
            Some((name, _)) if is_name(name.trim()) => settings += 1,
            // `declare -x NAME`: exported and without a value.
            None if transcript::listed(line).is_some_and(is_name) => {}
            _ => others += 1,
        }
    }
    settings > 0 && settings >= others
}

/// `ucx_info -c`: every setting of UCX, over two hundred of them, and nothing else. Nobody sets so many.
/// <https://github.com/openucx/ucx/blob/v1.20.0/src/tools/info/ucx_info.c>
fn is_ucx_configuration(text: &str) -> bool {
    const MANY: usize = 50;
    let mut settings = 0_usize;
    for line in transcript::lines(text) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || transcript::prompt(line).is_some() {
            continue;
        }
        if !line.starts_with("UCX_") || !line.contains('=') {
            return false;
        }
        settings += 1;
    }
    settings >= MANY
}

/// `uname -r`, or `uname -a`.
fn is_kernel(text: &str) -> bool {
    let mut lines = transcript::lines(text)
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty() && transcript::prompt(line).is_none());
    let Some(line) = lines.next() else {
        return false;
    };
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_release = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_digit()) && word.split('.').count() >= 2
    };
    match words.as_slice() {
        [release] => is_release(release),
        ["Linux", ..] => words.iter().any(is_release),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IBSTAT: &str = "CA 'mlx5_0'\n\tNumber of ports: 1\n\tFirmware version: 28.36.1010\n\tPort 1:\n\t\tState: Active\n\
                          \t\tPhysical state: LinkUp\n";

    /// A short text that each output is.
    const OWN: &[(&Ask, &str)] = &[
        (&ask::IBSTAT, IBSTAT),
        (&ask::ENVIRONMENT, "UCX_TLS=rc\nexport HOME=/root\n"),
        (&ask::ENVIRONMENT, "HOME=/root\n"),
        (
            &ask::ENVIRONMENT,
            "declare -x HOME=\"/root\"\ndeclare -x OLDPWD\ndeclare -x SHELL\n",
        ),
        (&ask::KERNEL, "5.15.0-1053-nvidia\n"),
        (&ask::KERNEL, "Linux node 6.1.0-57-amd64 #1 SMP x86_64\n"),
        (&ask::ULIMIT, "unlimited\n"),
        (&ask::ULIMIT, "max locked memory       (kbytes, -l) 64\n"),
        (
            &ask::LSMOD,
            "nvidia_peermem 16384 0\nib_uverbs 200704 1 nvidia_peermem\n",
        ),
        (
            &ask::DMESG,
            "[    3.141592] mlx5_core 0000:15:00.0: firmware version: 28.36.1010\n",
        ),
        (
            &ask::DMESG,
            "Nov 30 14:00:01 node kernel: mlx5_core 0000:15:00.0: up\n",
        ),
        (&ask::DMESG, "6,1234,98765,-;usb 1-1: new device\n"),
        (
            &ask::DMESG,
            "mlx5_core 0000:15:00.0: Port module event[error]: module 0, Cable error\n",
        ),
        (
            &ask::IP_ADDR,
            "2: eth0    inet 10.0.0.1/24 scope global eth0\n",
        ),
    ];

    #[test]
    fn an_environment_is_taken_apart_and_nothing_of_it_is_left_out() {
        let plain = |text: &str| environment(text).unwrap();
        for (text, wanted) in [
            ("UCX_TLS=tcp\0HF_TOKEN=x\0", "UCX_TLS=tcp\nHF_TOKEN=x\n"),
            ("> UCX_TLS=tcp\n>> A=b\n", "UCX_TLS=tcp\nA=b\n"),
            ("\u{1b}[01;31mUCX\u{1b}[m_TLS=tcp\n", "UCX_TLS=tcp\n"),
            (
                "NCCL_DEBUG=INFO HF_TOKEN=x UCX_TLS=tcp",
                "NCCL_DEBUG=INFO\nHF_TOKEN=x\nUCX_TLS=tcp\n",
            ),
            (
                "A=some words\n# UCX_TLS=tcp\n",
                "A=some words\n# UCX_TLS=tcp\n",
            ),
            (
                "export UCX_TLS=\"tcp\"\ndeclare -x EMPTY\n",
                "export UCX_TLS=\"tcp\"\ndeclare -x EMPTY\n",
            ),
        ] {
            let got = plain(text);
            assert_eq!(got.trim_end(), wanted.trim_end(), "{text:?}");
        }
        for text in [
            "A=b\npod-a: UCX_TLS=tcp\n",
            "2026-01-01T00:00:00Z UCX_TLS=tcp\nA=b\n",
            "UCX_TLS: tcp\n",
        ] {
            let said = environment(text).unwrap_err();
            assert!(
                said.contains("names UCX_TLS and is not understood"),
                "{said}"
            );
        }
    }

    #[test]
    fn commands_of_two_places_in_one_text_are_refused() {
        let rows = ["nvidia 1 0\n", "mlx5_ib 1 0\n"];
        for (commands, places) in [
            (
                ["$ kubectl exec a -- lsmod", "$ kubectl exec b -- lsmod"],
                Some("a and b"),
            ),
            (
                [
                    "kubectl exec -n x a -- sh -c 'lsmod'",
                    "kubectl exec -n y a -- sh -c 'lsmod'",
                ],
                Some("a sh x and a sh y"),
            ),
            (
                ["$ ssh root@n1 lsmod", "$ ssh root@n2 lsmod"],
                Some("root@n1 and root@n2"),
            ),
            (["root@n1:~# lsmod", "root@n2:~# lsmod"], Some("n1 and n2")),
            (["[me@n1 ~]$ lsmod", "[me@n2 ~]$ lsmod"], Some("n1 and n2")),
            (
                ["$ kubectl exec -it a -- lsmod", "$ kubectl exec a -- lsmod"],
                None,
            ),
            (
                [
                    "kubectl --token t0k exec a -- lsmod",
                    "kubectl --token t0k exec b -- lsmod",
                ],
                Some("a and b"),
            ),
            (["root@n1:~# lsmod", "root@n1:/tmp# sudo lsmod"], None),
            (
                ["me@laptop:~$ kubectl exec a -- lsmod", "root@a:/# lsmod"],
                None,
            ),
            (
                ["me@laptop:~$ kubectl exec -it a -- bash", "root@a:/# lsmod"],
                None,
            ),
        ] {
            let text = format!("{}\n{}{}\n{}", commands[0], rows[0], commands[1], rows[1]);
            let said = refuse(&ask::LSMOD, &text);
            let expected = places.map(|places| {
                format!("holds two places in one paste: {places}; hand in the lsmod of one place")
            });
            assert_eq!(said, expected, "{commands:?}");
        }
    }

    #[test]
    fn nothing_of_another_text_is_quoted() {
        for line in [
            "HF_TOKEN=canary",
            "HF_TOKEN: canary",
            "export HF_TOKEN=canary",
            "Authorization: Bearer canary",
            "canary",
            "curl -H 'Authorization: Bearer canary' https://h",
            "aws_secret_access_key canary",
        ] {
            let said = refuse(&ask::IBSTAT, &format!("{line}\nmore\n")).unwrap();
            assert!(said.starts_with("is no output of ibstat"), "{said}");
            assert!(!said.contains("canary"), "{said}");
            assert!(
                said.ends_with("paste all that it prints, from its first line on")
                    || said.ends_with("it reads like --input env=FILE"),
                "{said}"
            );
        }
        for (before, what) in [
            ("[pod/canary/main] ", "in brackets"),
            ("canary-1  | ", "a bar"),
            ("     1\t", "a number"),
            ("2026-01-02T03:04:05Z ", "a time"),
        ] {
            let text = format!("{before}CA 'mlx5_0'\n{before}  State: Active\n");
            let said = refuse(&ask::IBSTAT, &text).unwrap();
            assert!(
                said.contains(what) && said.contains("paste what stands behind it"),
                "{said}"
            );
            assert!(!said.contains("canary"), "{said}");
        }
        let comments = "# Memory domain: tcp\n#      Transport: tcp\n";
        assert!(refuse(&ask::ENVIRONMENT, comments).is_some());
        let none_set = "# catalogued variables of process 1\n";
        assert_eq!(refuse(&ask::ENVIRONMENT, none_set), None);
    }

    #[test]
    fn blanks_that_fill_every_line_belong_to_no_value() {
        let padded = "UCX_TLS=rc,cuda_copy   \r\nHOME=/root        \r\n\r\n";
        assert_eq!(
            environment(padded).unwrap(),
            "UCX_TLS=rc,cuda_copy\nHOME=/root\n\n\n"
        );
        for of_the_value in [
            "UCX_TLS=rc,cuda_copy \nHOME=/root\n",
            "UCX_TLS=rc,cuda_copy ",
        ] {
            let read = environment(of_the_value).unwrap();
            assert!(read.starts_with("UCX_TLS=rc,cuda_copy \n"), "{read:?}");
        }
    }

    #[test]
    fn each_output_is_taken_as_itself() {
        for (ask, text) in OWN {
            assert_eq!(refuse(ask, text), None, "{}", ask.id);
        }
    }

    #[test]
    fn no_output_is_taken_as_another() {
        for (ask, _) in OWN {
            for (other, text) in OWN {
                if ask.id != other.id {
                    let said = refuse(ask, text);
                    assert!(said.is_some(), "{} as {}: {text}", other.id, ask.id);
                }
            }
            let said = refuse(ask, "Lorem ipsum dolor sit amet.\n").unwrap();
            assert!(said.starts_with("is no output of "), "{said}");
            assert!(!said.contains("orem"), "{said}");
            let empty = refuse(ask, " \n");
            match ask.id == ask::ENVIRONMENT.id {
                true => assert_eq!(empty, None, "none is set"),
                false => assert!(empty.unwrap().starts_with("is empty")),
            }
        }
    }

    #[test]
    fn a_mistaken_name_is_corrected() {
        let said = refuse(&ask::ENVIRONMENT, IBSTAT).unwrap();
        assert!(
            said.ends_with("it reads like --input ibstat=FILE"),
            "{said}"
        );
    }

    #[test]
    fn a_dump_of_defaults_is_no_environment() {
        let dump: String = (0..60).map(|n| format!("UCX_OPTION_{n}=y\n")).collect();
        for ask in [&ask::ENVIRONMENT, &ask::UCX_INFO, &ask::UCX_INFO_DEVICES] {
            let said = refuse(ask, &dump).unwrap();
            assert!(said.starts_with("is what `ucx_info -c` prints"), "{said}");
        }
        let with_others = format!("{dump}PATH=/bin\n");
        assert_eq!(refuse(&ask::ENVIRONMENT, &with_others), None);
    }

    #[test]
    fn a_part_of_ucx_info_is_called_a_part() {
        let whole = "# Memory domain: tcp\n#     Component: tcp\n#      Transport: tcp\n#         Device: eth0\n#           Type: network\n\
                     # Memory domain: rdmacm\n#     Component: rdmacm\n#   < no supported devices found >\n";
        assert_eq!(refuse(&ask::UCX_INFO, whole), None);
        for cut in [
            "# Memory doma",
            "# Memory domain: mlx5_0\n#     Component: ib\n",
            "# Memory domain: mlx5_0\n#     Component: ib\n#      Transport: rc_mlx5\n",
            "# Memory domain: mlx5_0\n#     Component: ib\n#      Transport: rc_mlx5\n#         Dev",
        ] {
            let said = refuse(&ask::UCX_INFO, &format!("{whole}{cut}")).unwrap();
            assert!(said.contains("ends within a memory domain"), "{said}");
        }
        let names = "#      Transport: self\n#      Transport: tcp\n";
        let said = refuse(&ask::UCX_INFO, names).unwrap();
        assert!(said.contains("without their devices"), "{said}");
    }

    #[test]
    fn a_part_is_called_a_part() {
        let cut = "hca_id:\tmlx5_0\n\ttransport:\tInfiniBand (0)\n\t\tport:\t1\n\t\t\tstate:\tPORT_ACTIVE (4)\n\
                   \t\t\tlink_layer:\tInfiniBand\n\nhca_id:\tmlx5_1\n\ttransport:\tInfiniBand (0)\n";
        let said = refuse(&ask::IBV_DEVINFO, cut).unwrap();
        assert!(said.contains("ends within a device"), "{said}");
    }

    #[test]
    fn a_tool_that_did_not_run_has_answered() {
        for (ask, text) in [
            (&ask::IBSTAT, "sh: 1: ibstat: not found\n"),
            (&ask::IBSTAT, "bash: ibstat: command not found\n"),
            (&ask::IBSTAT, "bash: /usr/sbin/ibstat: Permission denied\n"),
            (
                &ask::DMESG,
                "dmesg: read kernel buffer failed: Operation not permitted\n",
            ),
            (
                &ask::SMI_Q,
                "Failed to initialize NVML: Driver/library version mismatch\n",
            ),
        ] {
            assert_eq!(refuse(ask, text), None, "{text}");
        }
    }
}
