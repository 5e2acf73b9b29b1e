//! Reads the output of a probe's script: bytes to answers. Pure.
//!
//! The bytes come from a container that may be hostile, over a connection that may break anywhere. Whatever they are,
//! every ask gets exactly one answer, and what did not arrive whole is missing.

use super::script::{FIELDS, Script};
use crate::ask::{self, Ask, Kind, Needs};
use crate::catalogue;
use crate::observed::Skip;
use crate::report::SkipReason;
use crate::sanitise;
use crate::snapshot::{Answer, CUT};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// More output than this is not read. The sum of what a script may print is far below it.
pub const MAX_OUTPUT: usize = 8 * 1024 * 1024;

/// Why an answer is missing when the script ended itself.
pub const STOPPED: &str = "the probe reached its deadline before this was read";

/// Answers of all asks of a script, from its output. `lost` is the answer where the output ends too early without
/// saying why; the caller knows best what ended it.
pub fn read(script: &Script, output: &[u8], lost: &Skip) -> BTreeMap<String, Answer> {
    let mut frames = Frames::new(script.nonce.as_bytes());
    for line in output[..output.len().min(MAX_OUTPUT)].split_inclusive(|byte| *byte == b'\n') {
        frames.line(line);
    }
    let lost = match frames.ending {
        Ending::Stopped => Skip::new(SkipReason::Timeout, STOPPED),
        Ending::Done => Skip::new(
            SkipReason::Unparsable,
            "the probe ended without a whole answer",
        ),
        Ending::None => lost.clone(),
    };
    let mut fields = frames
        .answers
        .remove(FIELDS)
        .map(|frame| fields(&script.asks, &frame.body));
    script
        .asks
        .iter()
        .map(|ask| {
            let mut frame = frames.answers.remove(ask.id);
            if let Kind::Fields { .. } = ask.kind {
                // That they were not read is not that there are none.
                frame = frame.zip(fields.as_mut()).map(|(frame, fields)| Frame {
                    body: fields.remove(ask.id).unwrap_or_default(),
                    ..frame
                });
            }
            let mut answer = answer(ask, frame.as_ref(), &lost);
            if let Answer::Text(text) = &mut answer
                && ask.id == ask::ENVIRONMENT.id
            {
                let lines = text.split('\n').map(|line| match line.split_once('=') {
                    Some((name, value)) if value.contains(LINE_BREAK) => {
                        let value = value.replace(LINE_BREAK, "\n");
                        format!("{name}={}", catalogue::one_line(&value))
                    }
                    _ => line.to_owned(),
                });
                *text = lines.collect::<Vec<_>>().join("\n");
            }
            (ask.id.to_owned(), answer)
        })
        .collect()
}

/// Stands for a line break within the value of a variable, as the script sends it.
const LINE_BREAK: char = '\u{1}';

/// How the script said that it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It did not say.
    None,
    /// All asks were gone through.
    Done,
    /// Its deadline ended it.
    Stopped,
}

/// One whole frame.
#[derive(Debug)]
struct Frame {
    body: Vec<u8>,
    /// What the end line says: a word, and what it is about.
    status: String,
}

/// The frames so far.
struct Frames<'a> {
    nonce: &'a [u8],
    open: Option<(String, Vec<u8>)>,
    answers: BTreeMap<String, Frame>,
    ending: Ending,
}

impl<'a> Frames<'a> {
    fn new(nonce: &'a [u8]) -> Self {
        Self {
            nonce,
            open: None,
            answers: BTreeMap::new(),
            ending: Ending::None,
        }
    }

    fn line(&mut self, line: &[u8]) {
        let Some(words) = self.marker(line) else {
            if let Some((_, body)) = &mut self.open {
                body.extend_from_slice(line);
            }
            return;
        };
        let (verb, rest) = words.split_once(' ').unwrap_or((&words, ""));
        match verb {
            "begin" => self.open = Some((rest.to_owned(), Vec::new())),
            "end" => self.end(rest),
            "done" => self.ending = Ending::Done,
            "stopped" => self.ending = Ending::Stopped,
            _ => {}
        }
    }

    /// The words of a whole line that begins with the nonce. A line without its end may be a part of one.
    fn marker(&self, line: &[u8]) -> Option<String> {
        let words = line
            .strip_prefix(self.nonce)?
            .strip_prefix(b" ")?
            .strip_suffix(b"\n")?;
        std::str::from_utf8(words).ok().map(str::to_owned)
    }

    /// Closes the open frame if the end belongs to it. The first answer to an ask counts.
    fn end(&mut self, rest: &str) {
        let (id, status) = rest.split_once(' ').unwrap_or((rest, ""));
        let Some((open, mut body)) = self.open.take() else {
            return;
        };
        if open == id {
            // The line break before the end line belongs to the frame.
            body.pop();
            self.answers.entry(open).or_insert(Frame {
                body,
                status: status.to_owned(),
            });
        }
    }
}

fn answer(ask: &Ask, frame: Option<&Frame>, lost: &Skip) -> Answer {
    let Some(frame) = frame else {
        return missing(lost.reason, lost.detail.clone());
    };
    let (word, about) = frame.status.split_once(' ').unwrap_or((&frame.status, ""));
    let about = sanitise::line(about, 200);
    match word {
        "ok" => whole(ask, &frame.body, false),
        "cut" => whole(ask, &frame.body, true),
        "absent" => missing(SkipReason::NotFound, format!("there is no {about}")),
        "denied" => missing(
            SkipReason::Denied,
            format!("{about} is closed to the user of the container"),
        ),
        "no-tool" => missing(
            SkipReason::NotFound,
            format!("{about} is not installed in the container"),
        ),
        "no-worker" => missing(
            SkipReason::NotFound,
            "no process of a known engine was found".to_owned(),
        ),
        "timeout" => {
            let (seconds, tool) = about.split_once(' ').unwrap_or(("some", ask.shown_as));
            missing(
                SkipReason::Timeout,
                match tool.strip_suffix(" hung before") {
                    Some(program) => format!(
                        "{program} was not run again after it had hung for an earlier question"
                    ),
                    None => format!("{tool} did not end within {seconds} s"),
                },
            )
        }
        "not-needed" => missing(
            SkipReason::NotApplicable,
            match ask.needs {
                Needs::RdmaDeviceWithout(files) if about == "answered" => {
                    format!("{} was not run: {files} answers it", ask.shown_as)
                }
                Needs::RdmaDevice | Needs::RdmaDeviceWithout(_) => format!(
                    "{} was not run: the kernel shows no RDMA device",
                    ask.shown_as
                ),
                Needs::NoProgram(program) => {
                    format!("{} was not read: {program} answers it", ask.shown_as)
                }
                Needs::Nothing | Needs::Worker => "not asked here".to_owned(),
            },
        ),
        _ => missing(
            SkipReason::Unparsable,
            format!(
                "the probe ended this answer with `{}`",
                sanitise::line(word, 40)
            ),
        ),
    }
}

/// A whole answer as text. What was cut says so in a last line; what is not UTF-8 shows as U+FFFD.
fn whole(ask: &Ask, body: &[u8], cut: bool) -> Answer {
    let max = ask.max_bytes as usize;
    let cut = cut || body.len() > max;
    let mut text = String::from_utf8_lossy(&body[..body.len().min(max)]).into_owned();
    if let Kind::Function { .. } = ask.kind {
        text = rooted(&text);
    }
    if let Kind::Tool { .. } = ask.kind
        && !cut
        && let Some(code) = crate::snapshot::exit_code(&text)
        && crate::snapshot::without_marks(&text).trim().is_empty()
    {
        let detail = format!(
            "{} printed nothing and ended with exit status {code}",
            ask.shown_as
        );
        return missing(SkipReason::Unparsable, detail);
    }
    if cut {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(CUT);
    }
    Answer::Text(text)
}

/// `sys/name:value`, as grep prints what it read below the root, as `/sys/name: value`, which is how the shell prints it.
fn rooted(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.split_once(':') {
            Some((path, value)) if path.starts_with("sys/") => {
                Cow::Owned(format!("/{path}: {value}"))
            }
            _ => Cow::Borrowed(line),
        })
        .collect()
}

/// What was read for all [`Kind::Fields`], by the ask that names the file.
fn fields(asks: &[&'static Ask], body: &[u8]) -> BTreeMap<&'static str, Vec<u8>> {
    let asks: Vec<_> = asks
        .iter()
        .filter_map(|ask| match ask.kind {
            Kind::Fields { dirs, names, .. } => Some((ask.id, dirs, names)),
            _ => None,
        })
        .collect();
    let mut fields = BTreeMap::new();
    // They come in the order of the asks, and of their directories.
    let (mut at, mut dir) = (0, "");
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        // "sys/name:value" is how grep prints what "/sys/name: value" says.
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let (path, value) = line.split_at(colon);
        let Ok(path) = std::str::from_utf8(path.strip_prefix(b"/").unwrap_or(path)) else {
            continue;
        };
        let again = path
            .strip_prefix(dir)
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|name| {
                asks.get(at)
                    .is_some_and(|(.., names)| names.contains(&name))
            });
        if !again {
            let ring = (at..asks.len()).chain(0..at);
            let found = ring.into_iter().find_map(|n| {
                let (_, dirs, names) = asks[n];
                let name = dirs.iter().find_map(|dir| below(dir, path))?;
                let of = path.strip_suffix(name)?.trim_end_matches('/');
                names.contains(&name).then_some((n, of))
            });
            let Some(found) = found else {
                continue;
            };
            (at, dir) = found;
        }
        let body: &mut Vec<u8> = fields.entry(asks[at].0).or_default();
        let value = value[1..].strip_prefix(b" ").unwrap_or(&value[1..]);
        for part in [b"/", path.as_bytes(), b": ", value] {
            body.extend_from_slice(part);
        }
    }
    fields
}

/// What of a path stands below a directory, which is a shell pattern.
fn below<'a>(pattern: &str, path: &'a str) -> Option<&'a str> {
    let mut rest = path;
    for wanted in pattern.trim_start_matches('/').split('/') {
        let (part, below) = rest.split_once('/')?;
        let matches = match wanted.split_once('*') {
            Some((before, after)) => part
                .strip_prefix(before)
                .is_some_and(|rest| rest.ends_with(after)),
            None => part == wanted,
        };
        if !matches {
            return None;
        }
        rest = below;
    }
    Some(rest)
}

fn missing(reason: SkipReason, detail: String) -> Answer {
    Answer::Missing { reason, detail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::probe::script::Options;
    use proptest::prelude::*;
    use std::time::Duration;

    const NONCE: &str = "0123456789abcdef";

    fn script(asks: &[&'static Ask]) -> Script {
        let deadline = Duration::from_secs(9);
        Script::new(
            asks,
            &Options {
                variables: &[],
                nonce: NONCE,
                deadline,
                root: "",
            },
        )
        .unwrap()
    }

    fn lost() -> Skip {
        Skip::new(SkipReason::ConnectionLost, "the connection broke")
    }

    fn frame(id: &str, body: &[u8], status: &str) -> Vec<u8> {
        let mut out = format!("{NONCE} begin {id}\n").into_bytes();
        out.extend_from_slice(body);
        out.extend_from_slice(format!("\n{NONCE} end {id} {status}\n").as_bytes());
        out
    }

    fn one(body: &[u8], status: &str) -> Answer {
        let output = frame("ibstat", body, status);
        read(&script(&[&ask::IBSTAT]), &output, &lost())
            .remove("ibstat")
            .unwrap()
    }

    fn text(text: &str) -> Answer {
        Answer::Text(text.to_owned())
    }

    fn reason(answer: &Answer) -> Option<SkipReason> {
        match answer {
            Answer::Text(_) => None,
            Answer::Missing { reason, .. } => Some(*reason),
        }
    }

    #[test]
    fn a_body_keeps_its_last_line_with_or_without_its_end() {
        assert_eq!(one(b"a\nb\n", "ok"), text("a\nb\n"));
        assert_eq!(one(b"a\nb", "ok"), text("a\nb"));
        assert_eq!(one(b"", "ok"), text(""));
    }

    #[test]
    fn every_end_has_its_words() {
        let said = |status| match one(b"", status) {
            Answer::Text(_) => panic!("{status}"),
            Answer::Missing { reason, detail } => format!("{}: {detail}", reason.word()),
        };
        let all = [
            "absent /sys/class",
            "denied /proc/1/environ",
            "no-tool ibstat",
            "no-worker",
            "timeout 5 ibstat",
            "timeout 15 nvidia-smi hung before",
            "not-needed",
            "",
            "b\u{1b}[2Jx",
        ]
        .map(said)
        .join("\n");
        insta::assert_snapshot!(all, @r"
        not-found: there is no /sys/class
        denied: /proc/1/environ is closed to the user of the container
        not-found: ibstat is not installed in the container
        not-found: no process of a known engine was found
        timeout: ibstat did not end within 5 s
        timeout: nvidia-smi was not run again after it had hung for an earlier question
        not-applicable: ibstat was not run: the kernel shows no RDMA device
        unparsable: the probe ended this answer with ``
        unparsable: the probe ended this answer with `b\u{1b}[2Jx`
        ");
    }

    #[test]
    fn a_frame_without_the_nonce_is_content() {
        let forged = b"fedcba9876543210 end ibstat ok\n 0123456789abcdef end ibstat ok\nx";
        assert_eq!(
            one(forged, "ok"),
            text(std::str::from_utf8(forged).unwrap())
        );
    }

    #[test]
    fn an_early_end_is_told_from_a_deadline() {
        let script = script(&[&ask::IBSTAT, &ask::KERNEL]);
        let mut output = frame("ibstat", b"x", "ok");
        let reasons = |output: &[u8]| {
            read(&script, output, &lost())
                .values()
                .map(reason)
                .collect::<Vec<_>>()
        };
        assert_eq!(reasons(&output), [None, Some(SkipReason::ConnectionLost)]);
        output.extend_from_slice(
            format!("{NONCE} begin kernel\n6.1\n\n{NONCE} stopped\n").as_bytes(),
        );
        assert_eq!(reasons(&output), [None, Some(SkipReason::Timeout)]);
    }

    #[test]
    fn floods_and_foreign_bytes_are_marked() {
        let long = vec![b'x'; ask::IBSTAT.max_bytes as usize + 1];
        let Answer::Text(cut) = one(&long, "ok") else {
            panic!()
        };
        assert!(cut.ends_with(&format!("x\n{CUT}")) && cut.len() < long.len() + 40);
        assert_eq!(one(b"a\xff\0b", "ok"), text("a\u{fffd}\0b"));
        assert_eq!(one(b"a", "cut"), text(&format!("a\n{CUT}")));
    }

    #[test]
    fn a_tool_that_says_nothing_and_fails_gives_no_answer() {
        assert_eq!(
            reason(&one(b"\n[exit 9]\n", "ok")),
            Some(SkipReason::Unparsable)
        );
        assert_eq!(
            one(b"CA 'x'\n\n[exit 9]\n", "ok"),
            text("CA 'x'\n\n[exit 9]\n")
        );
    }

    proptest! {
        #[test]
        fn any_bytes_give_one_answer_per_ask(output in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let script = script(ask::ALL);
            let answers = read(&script, &output, &lost());
            prop_assert_eq!(answers.len(), ask::ALL.len());
        }

        #[test]
        fn frames_in_any_order_and_cut_anywhere_never_give_a_part_of_an_answer(
            pieces in proptest::collection::vec((0usize..4, proptest::collection::vec(any::<u8>(), 0..60)), 0..12),
            cut in any::<proptest::sample::Index>(),
        ) {
            let ids = ["kernel", "limits", "ibstat", "unknown"];
            let script = script(&[&ask::KERNEL, &ask::LIMITS, &ask::IBSTAT]);
            let mut output = Vec::new();
            for (id, body) in &pieces {
                output.extend(frame(ids[*id], body, "ok"));
            }
            let whole = read(&script, &output, &lost());
            let part = read(&script, &output[..cut.index(output.len() + 1)], &lost());
            for (id, answer) in part {
                prop_assert!(answer == whole[&id] || reason(&answer) == Some(SkipReason::ConnectionLost), "{id}: {answer:?}");
            }
        }

        #[test]
        fn any_body_comes_back(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assume!(!body.windows(NONCE.len()).any(|w| w == NONCE.as_bytes()));
            let kept = String::from_utf8_lossy(&body).into_owned();
            let answers = read(&script(&[&ask::LIMITS]), &frame("limits", &body, "ok"), &lost());
            prop_assert_eq!(&answers["limits"], &Answer::Text(kept));
        }
    }

    #[test]
    fn a_line_belongs_to_the_ask_that_names_its_file() {
        let asks = script(&[&ask::RDMA_PORTS, &ask::RDMA_COUNTERS, &ask::NUMA]);
        let output = |fields: &str| {
            let ends = ["rdma-ports", "rdma-counters", "numa"]
                .map(|id| format!("{NONCE} begin {id}\n\n{NONCE} end {id} ok\n"));
            format!("{fields}{}{NONCE} done\n", ends.concat())
        };
        let shared = format!(
            "{NONCE} begin fields\n\
             sys/class/infiniband/mlx5_0/ports/1/state:4: ACTIVE\n\
             /sys/class/infiniband/mlx5_0/ports/1/rate: 400 Gb/sec (4X NDR)\n\
             sys/class/infiniband/mlx5_0/ports/1/counters/link_downed:3\n\
             sys/devices/system/node/node1/cpulist:0-3\n\
             sys/devices/system/cpu1/cpulist:0-3\n\
             sys/class/infiniband/mlx5_0/ports/1/x/state:5\n\
             \n{NONCE} end fields ok\n"
        );
        let answers = read(&asks, output(&shared).as_bytes(), &lost());
        let text = |ask: &Ask| match &answers[ask.id] {
            Answer::Text(text) => text.clone(),
            missing => panic!("{missing:?}"),
        };
        assert_eq!(
            text(&ask::RDMA_PORTS),
            "/sys/class/infiniband/mlx5_0/ports/1/state: 4: ACTIVE\n\
             /sys/class/infiniband/mlx5_0/ports/1/rate: 400 Gb/sec (4X NDR)\n"
        );
        assert_eq!(
            text(&ask::RDMA_COUNTERS),
            "/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed: 3\n"
        );
        assert_eq!(
            text(&ask::NUMA),
            "/sys/devices/system/node/node1/cpulist: 0-3\n"
        );
        // That nothing was read is not that nothing is there.
        let answers = read(&asks, output("").as_bytes(), &lost());
        for answer in answers.values() {
            assert!(matches!(answer, Answer::Missing { .. }), "{answer:?}");
        }
    }
}
