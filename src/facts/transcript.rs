//! What terminals, loggers and copying do to the output of a tool, undone.
//!
//! Escape sequences (also those whose ESC byte a web page turned into another character), CR before LF, quotation
//! marks of a mail or a Markdown quote, no-break blanks, and shell prompts.

use super::Why;
use crate::report::SkipReason;
use crate::sanitise;
use std::borrow::Cow;

/// Longest excerpt of foreign text that a fact keeps, in characters.
pub const EXCERPT: usize = 200;

/// The lines of a text without escape sequences, carriage returns and leading quotation marks. Blanks inside a line and
/// indentation stay, because some outputs mean something by them.
pub fn lines(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    text.split('\n').map(clean)
}

/// An excerpt of foreign text that is safe to show.
pub fn excerpt(text: &str) -> String {
    sanitise::line(text.trim(), EXCERPT)
}

/// What a program said, safe to show: as [`excerpt`], and without what may be a secret.
pub fn message(text: &str) -> String {
    // What is far behind the cut of an excerpt need not be looked at.
    let text = text.trim_start();
    let end = text.char_indices().nth(8 * EXCERPT);
    let begin = end.map_or(text, |(at, _)| &text[..at]);
    excerpt(&sanitise::withhold_secrets(begin))
}

/// `key: value` at the first colon, both trimmed. `None` without a colon or without a key.
pub fn field(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let key = key.trim();
    (!key.is_empty()).then_some((key, value.trim()))
}

/// The number at the start of a text: `26.562 GB/s` is 26.562. Neither sign nor exponent.
pub fn number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The whole number at the start of a text, decimal or `0x` hexadecimal.
pub fn integer(text: &str) -> Option<u64> {
    let text = text.trim_start();
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let end = hex
            .find(|c: char| !c.is_ascii_hexdigit())
            .unwrap_or(hex.len());
        return u64::from_str_radix(&hex[..end], 16).ok();
    }
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().ok()
}

/// As [`integer`], for numbers that are small by nature.
pub fn small(text: &str) -> Option<u32> {
    integer(text).and_then(|n| u32::try_from(n).ok())
}

/// The command that a line with a shell prompt shows: `[user@host ~]$ ibstat`, `user@host:~# ibstat`, `$ ibstat`.
pub fn prompt(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if let Some(command) = line.strip_prefix("$ ") {
        return Some(command.trim());
    }
    let at = line.find(['$', '#'])?;
    let (head, command) = (&line[..at], &line[at + 1..]);
    let prompted = head.contains('@') && !head.trim_end().contains(' ')
        || head.starts_with('[') && head.ends_with(']') && head.contains('@');
    prompted.then(|| command.trim())
}

/// A variable as a shell lists it: `NAME=value` of `env`, taken as it stands, and `export NAME="value"` or
/// `declare -x NAME="value"` of `export -p`, whose quotes are the shell's. A blank at the end of a value that `env` prints is
/// a part of it: UCX and NCCL do not take it off.
pub fn assignment(line: &str) -> Option<(&str, Cow<'_, str>)> {
    let line = line.trim_start();
    let Some(listed) = listed(line) else {
        let (name, value) = line.split_once('=')?;
        return Some((name, Cow::Borrowed(value)));
    };
    let (name, value) = listed.split_once('=')?;
    Some((name.trim(), without_quotes(value.trim_end())))
}

/// What follows `export` or `declare -x`.
pub fn listed(line: &str) -> Option<&str> {
    let words = line.trim_start();
    if let Some(rest) = words.strip_prefix("export ") {
        let rest = rest.trim_start();
        return Some(rest.strip_prefix("-p ").unwrap_or(rest).trim_start());
    }
    let rest = ["declare ", "typeset "]
        .iter()
        .find_map(|word| words.strip_prefix(word))?;
    let (flags, rest) = rest.trim_start().split_once(' ')?;
    (flags.starts_with('-') && flags.contains('x')).then(|| rest.trim_start())
}

/// A value as a shell quotes it: `'a'`, `"a"` with backslashes before what is special there, or none.
fn without_quotes(value: &str) -> Cow<'_, str> {
    let inside = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(inside) = inside('\'') {
        return Cow::Owned(inside.replace("'\\''", "'"));
    }
    let Some(inside) = inside('"') else {
        return Cow::Borrowed(value);
    };
    let mut plain = String::new();
    let mut letters = inside.chars().peekable();
    while let Some(letter) = letters.next() {
        let special = letter == '\\' && matches!(letters.peek(), Some('"' | '$' | '`' | '\\'));
        plain.extend(if special {
            letters.next()
        } else {
            Some(letter)
        });
    }
    Cow::Owned(plain)
}

/// A line that says that the tool did not run, by the table of known words.
pub fn failure(text: &str) -> Option<Why> {
    // A failure is short; a long output that mentions these words somewhere is not one.
    lines(text).take(20).find_map(|line| {
        FAILURES
            .iter()
            .find(|known| line.contains(known.words))
            .map(|known| Why::Failed {
                reason: known.reason,
                words: message(&line),
            })
    })
}

/// Words by which a shell or a tool says that there is no output.
struct Failure {
    words: &'static str,
    reason: SkipReason,
}

const FAILURES: &[Failure] = &[
    // POSIX shells: dash and busybox `sh: 1: x: not found`, bash `x: command not found`.
    // https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_08_02
    Failure {
        words: "command not found",
        reason: SkipReason::NotFound,
    },
    Failure {
        words: ": not found",
        reason: SkipReason::NotFound,
    },
    // The runtime of an exec without a shell.
    // https://github.com/opencontainers/runc/blob/v1.2.0/libcontainer/standard_init_linux.go
    Failure {
        words: "executable file not found in $PATH",
        reason: SkipReason::NotFound,
    },
    // The shell, or the kernel through the tool.
    Failure {
        words: ": Permission denied",
        reason: SkipReason::Denied,
    },
    Failure {
        words: ": No such file or directory",
        reason: SkipReason::NotFound,
    },
    // dmesg without the right to read the ring buffer (`kernel.dmesg_restrict`).
    // https://github.com/util-linux/util-linux/blob/v2.40/sys-utils/dmesg.c
    Failure {
        words: "read kernel buffer failed",
        reason: SkipReason::Denied,
    },
    // `collect_env` of PyTorch, when a command of its list failed.
    // https://github.com/pytorch/pytorch/blob/v2.6.0/torch/utils/collect_env.py
    Failure {
        words: "Could not collect",
        reason: SkipReason::NotCollected,
    },
    // nvidia-smi without a loaded driver, with a driver of another version, and without a GPU.
    // https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/
    Failure {
        words: "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
        reason: SkipReason::NotFound,
    },
    Failure {
        words: "Failed to initialize NVML",
        reason: SkipReason::NotFound,
    },
    Failure {
        words: "No devices were found",
        reason: SkipReason::NotFound,
    },
];

fn clean(line: &str) -> Cow<'_, str> {
    let line = line.strip_suffix('\r').unwrap_or(line);
    let line = unquoted(line);
    if line.contains(is_escape_opener) {
        Cow::Owned(without_escapes(line))
    } else {
        Cow::Borrowed(line)
    }
}

/// `> ` of a quote, as often as it stands there.
fn unquoted(mut line: &str) -> &str {
    line = line.strip_prefix('\u{feff}').unwrap_or(line);
    while let Some(rest) = line.strip_prefix('>') {
        line = rest.strip_prefix(' ').unwrap_or(rest);
    }
    line
}

/// Characters that may open something to remove: ESC, what copying leaves in its place, `[` of a sequence whose ESC is
/// gone, CR of a progress display, no-break blank.
fn is_escape_opener(c: char) -> bool {
    matches!(
        c,
        '\u{1b}' | '\u{fffd}' | '\u{2190}' | '[' | '\r' | '\u{a0}' | '\u{7}'
    )
}

fn without_escapes(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(is_escape_opener) {
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        let opener = tail.chars().next().unwrap_or_default();
        let after = &tail[opener.len_utf8()..];
        rest = match opener {
            '\r' | '\u{7}' => after,
            '\u{a0}' => {
                out.push(' ');
                after
            }
            '[' => {
                if let Some(rest) = colour(after) {
                    rest
                } else {
                    out.push('[');
                    after
                }
            }
            '\u{1b}' => escape(after),
            lost => {
                if let Some(rest) = after.strip_prefix('[').and_then(colour) {
                    rest
                } else {
                    out.push(lost);
                    after
                }
            }
        };
    }
    out.push_str(rest);
    out
}

/// The text behind `4m`, `0;31m`, `K`: parameters of a display attribute or of "erase line" after `[`.
fn colour(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    let rest = &text[end..];
    if end == 0 {
        return None;
    }
    rest.strip_prefix('m').or_else(|| rest.strip_prefix('K'))
}

/// The text behind one escape sequence whose ESC was removed: CSI, OSC, or two characters (ECMA-48).
fn escape(text: &str) -> &str {
    if let Some(body) = text.strip_prefix('[') {
        let end = body.find(|c: char| ('\u{40}'..='\u{7e}').contains(&c));
        return end.map_or("", |end| &body[end + 1..]);
    }
    if let Some(body) = text.strip_prefix(']') {
        return match body.find(['\u{7}', '\u{1b}']) {
            Some(end) if body[end..].starts_with("\u{1b}\\") => &body[end + 2..],
            Some(end) => &body[end + 1..],
            None => "",
        };
    }
    let mut chars = text.chars();
    chars.next();
    chars.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_failure_hold_no_secret() {
        let Some(Why::Failed { words, .. }) = failure("sh: 1: TOKEN=hunter2: not found") else {
            panic!("no failure");
        };
        assert!(!words.contains("hunter2"), "{words}");
    }

    fn cleaned(text: &str) -> String {
        lines(text).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_shells_list_of_variables_loses_its_quotes_and_env_keeps_its_own() {
        for (line, name, value) in [
            ("UCX_TLS=rc,cuda", "UCX_TLS", "rc,cuda"),
            ("UCX_TLS=\"rc\"", "UCX_TLS", "\"rc\""),
            ("export UCX_TLS=\"rc,cuda_copy\"", "UCX_TLS", "rc,cuda_copy"),
            ("export UCX_TLS=rc", "UCX_TLS", "rc"),
            ("UCX_TLS=rc,cuda_copy ", "UCX_TLS", "rc,cuda_copy "),
            ("UCX_TLS= rc", "UCX_TLS", " rc"),
            ("export UCX_TLS=\"rc \" ", "UCX_TLS", "rc "),
            ("export UCX_TLS=rc ", "UCX_TLS", "rc"),
            ("export A='it'\\''s'", "A", "it's"),
            (
                "declare -x UCX_NET_DEVICES=\"mlx5_0:1\"",
                "UCX_NET_DEVICES",
                "mlx5_0:1",
            ),
            ("declare -rx A=\"a \\\"b\\\" \\$c\"", "A", "a \"b\" $c"),
            ("typeset -x A=b", "A", "b"),
        ] {
            assert_eq!(
                assignment(line),
                Some((name, Cow::Borrowed(value))),
                "{line}"
            );
        }
        assert_eq!(assignment("declare -x OLDPWD"), None);
        assert_eq!(listed("declare -x OLDPWD"), Some("OLDPWD"));
        assert_eq!(listed("declare -a LIST=(1)"), None);
    }

    #[test]
    fn escape_sequences_go_whatever_became_of_their_esc() {
        for (text, expected) in [
            ("\t\x1b[4mGPU0\tGPU1\x1b[0m", "\tGPU0\tGPU1"),
            ("\u{fffd}[4mGPU0\u{fffd}[0m", "GPU0"),
            ("\u{2190}[36m(pid=1)\u{2190}[0m x", "(pid=1) x"),
            ("[4mGPU0[0m", "GPU0"),
            ("a\x1b]0;title\x07b", "ab"),
            ("a\x1b]0;title\x1b\\b", "ab"),
            ("a\x1b", "a"),
            ("a\x1b[", "a"),
            ("rank 0[1] -> 8[0] [send]", "rank 0[1] -> 8[0] [send]"),
            ("[12]", "[12]"),
            ("a\u{a0}b\r", "a b"),
            ("> > quoted", "quoted"),
            ("\u{feff}first", "first"),
            ("\u{fffd}", "\u{fffd}"),
        ] {
            assert_eq!(cleaned(text), expected, "{text:?}");
        }
    }

    #[test]
    fn prompts_are_told_from_output() {
        for (line, command) in [
            (" [user1@node01 ~]$ ibstat", Some("ibstat")),
            (
                "[user1@node01 pt2pt]$ lsmod|grep gdrdrv",
                Some("lsmod|grep gdrdrv"),
            ),
            (
                "root@pod-0:/workspace# nvidia-smi -q",
                Some("nvidia-smi -q"),
            ),
            ("   $ lsmod | grep nvidia", Some("lsmod | grep nvidia")),
            ("# Memory domain: self", None),
            ("mlx5_0 port 1 ==> ens192f0 (Up)", None),
            ("a # comment", None),
        ] {
            assert_eq!(prompt(line), command, "{line:?}");
        }
    }

    #[test]
    fn numbers_stop_where_they_end() {
        assert_eq!(number(" 26.562 GB/s"), Some(26.562));
        assert_eq!(number("<inactive>"), None);
        assert_eq!(integer("0x33bf"), Some(0x33bf));
        assert_eq!(integer("4096 (5)"), Some(4096));
        assert_eq!(integer("99999999999999999999"), None);
        assert_eq!(small("4294967296"), None);
    }
}
