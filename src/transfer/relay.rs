//! Runs a transfer: starts both ends, relays between them, and says which end failed first and where.
//!
//! Nothing here waits for ever, and a run never ends with the bare word "timeout": a silent end is asked whether it
//! still lives, and the answer decides whose fault it is.

use super::bootstrap;
use super::complaints;
use super::protocol::{
    Asked, Command, Counters, Event, Kind, PROTO, ProtocolError, Ready, Role, Start, Verify, Words,
};
use super::record::{Attempt, EndRecord, FORMAT, Failure, Stage, StepRecord, TransferRecord, What};
use super::settings::{End, Settings, Step};
use super::side::{Incoming, Side};
use super::stream::{Ended, Open, Stream};
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, interval_at, sleep_until, timeout};

/// Variables of every run: they make UCX print which protocol it uses, and NIXL which library it loaded.
const LOGGING: [(&str, &str); 3] = [
    ("UCX_LOG_LEVEL", "info"),
    ("UCX_PROTO_INFO", "y"),
    ("NIXL_LOG_LEVEL", "INFO"),
];
/// An end that is waited for by nobody hears from us this often, so that it does not leave for silence.
const PING: Duration = Duration::from_secs(5);
/// A living agent answers a ping within this time, whatever it is doing.
const ALIVE: Duration = Duration::from_secs(2);
/// What an agent gets to leave after its standard input is closed.
const LEAVE: Duration = Duration::from_secs(2);
/// The same for an interpreter that has not begun with it.
const NOT_BEGUN: Duration = Duration::from_millis(500);

/// Why a run is to end before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// Somebody asked for it.
    Interrupted,
    /// The time of the whole run is over, of which this transfer is a part.
    Deadline,
}

/// Runs one transfer. Whatever happens is an answer: see [`TransferRecord::failure`].
pub async fn run<T: Open, I: Open>(
    target: &End<'_, T>,
    initiator: &End<'_, I>,
    settings: &Settings,
) -> TransferRecord {
    run_until(target, initiator, settings, std::future::pending()).await
}

/// The same until it is told to end: then both ends are closed and waited for, and what was done so far is reported.
pub async fn run_until<T: Open, I: Open>(
    target: &End<'_, T>,
    initiator: &End<'_, I>,
    settings: &Settings,
    halt: impl Future<Output = Halt>,
) -> TransferRecord {
    let mut run = Run {
        settings,
        target: OneEnd::new(Role::Target, &target.label, settings),
        initiator: OneEnd::new(Role::Initiator, &initiator.label, settings),
        stage: Stage::Start,
        waiting_for: Role::Target,
        connected_s: None,
        steps: Vec::new(),
    };
    let outcome = tokio::select! {
        outcome = timeout(settings.limits.run, run.all(target, initiator)) => Ok(outcome),
        halt = halt => Err(halt),
    };
    let failure = match outcome {
        Ok(Ok(Ok(()))) => None,
        Ok(Ok(Err(first))) => Some(run.settle(first).await),
        Err(halt) => {
            let (what, detail) = match halt {
                Halt::Interrupted => (What::Interrupted, "the run was interrupted"),
                Halt::Deadline => (What::CutShort, "the time of the whole run was over"),
            };
            let (side, stage) = run.at();
            Some(Failure::new(side, stage, what, detail))
        }
        Ok(Err(_)) => {
            let detail = format!("the whole run has {} s", settings.limits.run.as_secs());
            let (side, stage) = run.at();
            let first = Failure::new(side, stage, What::Deadline, detail);
            Some(run.settle(first).await)
        }
    };
    run.finish(target, initiator, failure).await
}

struct Run<'a> {
    settings: &'a Settings,
    target: OneEnd,
    initiator: OneEnd,
    stage: Stage,
    waiting_for: Role,
    connected_s: Option<f64>,
    steps: Vec<StepRecord>,
}

struct OneEnd {
    role: Role,
    tag: String,
    side: Option<Side>,
    /// The interpreter has run the program.
    begun: bool,
    record: EndRecord,
    md: String,
    addr: u64,
}

impl Run<'_> {
    async fn all<T: Open, I: Open>(
        &mut self,
        target: &End<'_, T>,
        initiator: &End<'_, I>,
    ) -> Result<(), Failure> {
        self.stage = Stage::Ready;
        tokio::try_join!(
            self.target.bring_up(target, self.settings),
            self.initiator.bring_up(initiator, self.settings),
        )?;
        self.connect().await?;
        for (n, step) in self.settings.steps.iter().enumerate() {
            let seed = self.settings.seed.wrapping_add(n as u32);
            let intact = self.step(*step, seed).await?;
            if !intact {
                break;
            }
        }
        self.stage = Stage::Bye;
        for role in [Role::Initiator, Role::Target] {
            let Event::Bye(bye) = self.ask(role, &Command::Bye, "bye", ALIVE).await? else {
                continue;
            };
            self.end(role).record.maxrss_kb = Some(bye.maxrss_kb);
        }
        Ok(())
    }

    /// Which end is waited for, and what it is at.
    fn at(&self) -> (Role, Stage) {
        let silent = [&self.target, &self.initiator]
            .into_iter()
            .find(|end| self.stage == Stage::Ready && !end.begun);
        match silent {
            Some(end) => (end.role, Stage::Start),
            None => (self.waiting_for, self.stage),
        }
    }

    async fn connect(&mut self) -> Result<(), Failure> {
        self.stage = Stage::Connect;
        let peer = self
            .target
            .record
            .ready
            .as_ref()
            .map(|r| (r.bytes, r.dev, r.seg.to_string()));
        let (bytes, dev, seg) = peer.unwrap_or_default();
        let (md, addr) = (std::mem::take(&mut self.target.md), self.target.addr);
        let command = Command::Connect {
            md,
            addr,
            bytes,
            dev,
            seg,
        };
        if let Event::Connected(c) = self
            .ask(
                Role::Initiator,
                &command,
                "connected",
                self.settings.limits.connect,
            )
            .await?
        {
            self.connected_s = Some(c.s);
        }
        Ok(())
    }

    /// One step. False: bytes differ, and more steps would only repeat it.
    async fn step(&mut self, step: Step, seed: u32) -> Result<bool, Failure> {
        let limits = &self.settings.limits;
        let Step {
            kind,
            bytes,
            descs,
            iters,
        } = step;
        let total = bytes * descs;
        self.stage = Stage::Fill;
        let (prepare, prepared) = match kind {
            Kind::Write => (Command::Clear { bytes: total }, "cleared"),
            Kind::Read => (Command::Fill { seed, bytes: total }, "filled"),
        };
        let answer = self
            .ask(Role::Target, &prepare, prepared, limits.operation)
            .await?;
        if let Event::Filled(region) | Event::Cleared(region) = answer {
            let filled = (kind == Kind::Read).then_some(seed);
            region
                .answers(filled, total)
                .map_err(|e| self.nonsense(Role::Target, &e))?;
        }
        let before = self.counters().await?;

        self.stage = Stage::Xfer { kind, bytes, descs };
        let command = Command::Xfer {
            kind,
            bytes,
            descs,
            iters,
            seed,
            op_timeout_s: limits.operation.as_secs_f64(),
            budget_s: limits.step.as_secs_f64(),
            step_bytes: limits.step_bytes,
        };
        // The first operation, the budget, one operation begun within it, the last one, and time to fill and to compare.
        let deadline = limits.operation * 3 + limits.step + limits.operation;
        let began = Instant::now();
        let Event::Xfer(xfer) = self
            .ask(Role::Initiator, &command, "xfer", deadline)
            .await?
        else {
            return Ok(true);
        };
        let asked = Asked {
            kind,
            bytes,
            descs,
            iters,
            seed,
        };
        xfer.answers(&asked, began.elapsed().as_secs_f64())
            .map_err(|e| self.nonsense(Role::Initiator, &e))?;

        let after = self.counters().await?;
        let (verify, verified_by) = match (kind, &xfer.verify) {
            (Kind::Read, Some(verify)) => (verify.clone(), Role::Initiator),
            _ => (self.check(seed, total).await?, Role::Target),
        };
        let intact = verify.ok;
        let target_delta = Some(difference(&before, &after));
        self.steps.push(StepRecord {
            xfer: *xfer,
            target_delta,
            verify,
            verified_by,
        });
        Ok(intact)
    }

    async fn counters(&mut self) -> Result<Counters, Failure> {
        self.stage = Stage::Counters;
        match self
            .ask(
                Role::Target,
                &Command::Counters,
                "counters",
                self.settings.limits.operation,
            )
            .await?
        {
            Event::Counters(set) => Ok(set.counters),
            _ => Ok(Counters::new()),
        }
    }

    async fn check(&mut self, seed: u32, bytes: u64) -> Result<Verify, Failure> {
        self.stage = Stage::Check;
        let command = Command::Check { seed, bytes };
        let answer = self
            .ask(
                Role::Target,
                &command,
                "checked",
                self.settings.limits.operation,
            )
            .await?;
        let Event::Checked(checked) = answer else {
            return Err(self.nonsense(
                Role::Target,
                &ProtocolError::Malformed("no comparison".to_owned()),
            ));
        };
        checked
            .answers(seed, bytes)
            .map_err(|e| self.nonsense(Role::Target, &e))?;
        Ok(checked.verify)
    }

    fn nonsense(&self, side: Role, e: &ProtocolError) -> Failure {
        Failure::new(side, self.stage, What::of(e), e.to_string())
    }

    fn end(&mut self, role: Role) -> &mut OneEnd {
        match role {
            Role::Target => &mut self.target,
            Role::Initiator => &mut self.initiator,
        }
    }

    /// Sends a command and waits for its answer, while watching the other end.
    async fn ask(
        &mut self,
        role: Role,
        command: &Command,
        wanted: &'static str,
        within: Duration,
    ) -> Result<Event, Failure> {
        self.waiting_for = role;
        let stage = self.stage;
        let (me, other) = match role {
            Role::Target => (&mut self.target, &mut self.initiator),
            Role::Initiator => (&mut self.initiator, &mut self.target),
        };
        let (Some(mine), Some(others)) = (&mut me.side, &mut other.side) else {
            return Err(Failure::new(
                role,
                stage,
                What::StreamLost,
                "the stream is gone",
            ));
        };
        // Who has said goodbye may leave.
        let watch_other = other.record.maxrss_kb.is_none();
        mine.command(command).await;
        let deadline = Instant::now() + within;
        let mut ping = interval_at(Instant::now() + PING, PING);
        loop {
            let (side, incoming) = tokio::select! {
                incoming = mine.incoming.recv() => (role, incoming),
                incoming = others.incoming.recv(), if watch_other => (role.other(), incoming),
                _ = ping.tick(), if watch_other => {
                    others.command(&Command::Ping).await;
                    continue;
                }
                () = sleep_until(deadline) => {
                    let detail = format!("no answer within {} s", within.as_secs());
                    return Err(Failure::new(role, stage, What::Deadline, detail));
                }
            };
            let what = match incoming {
                Some(Incoming::Event(Event::Pong)) => continue,
                Some(Incoming::Event(Event::Fatal(fatal))) => Failure::fatal(side, stage, &fatal),
                Some(Incoming::Event(event)) if side == role && event.word() == wanted => {
                    return Ok(event);
                }
                Some(Incoming::Event(event)) => {
                    let e = ProtocolError::Unexpected {
                        wanted,
                        got: event.word(),
                    };
                    Failure::new(side, stage, What::Nonsense, e.to_string())
                }
                Some(Incoming::Bad(e)) => Failure::new(side, stage, What::of(&e), e.to_string()),
                Some(Incoming::End) | None => {
                    let live = if side == role { mine } else { others };
                    Failure::ended(side, stage, live.ended(LEAVE).await.as_ref())
                }
            };
            return Err(what);
        }
    }

    /// Finds the cause behind the first complaint: an initiator complains as well when its target has died, or dies of a
    /// broken pipe to it.
    async fn settle(&mut self, mut first: Failure) -> Failure {
        let open_question = matches!(
            first.what,
            What::Connect
                | What::Prepare
                | What::Transfer
                | What::Stall
                | What::Deadline
                | What::StreamLost
        ) || first.what == What::Crashed && first.side == Role::Initiator;
        // An interpreter that never ran the program answers no ping.
        let not_begun = first.what == What::Deadline && first.stage == Stage::Start;
        if !open_question || not_begun {
            return first;
        }
        let (accused, stage) = (first.side, first.stage);
        if first.what == What::Deadline && self.end(accused).running() {
            match self.end(accused).alive().await {
                Alive::Yes | Alive::NeverWas => {}
                Alive::Silent => {
                    first.what = What::Stopped;
                    first.detail =
                        format!("{}; it does not answer a ping either", first.detail).into();
                }
                Alive::Gone(failure) => first = first.behind(Failure { stage, ..failure }),
            }
        }
        match self.end(accused.other()).alive().await {
            Alive::NeverWas => {}
            Alive::Yes if first.what == What::Deadline && matches!(stage, Stage::Xfer { .. }) => {
                first.what = What::Stall;
                first
                    .also
                    .push(format!("the {} is alive", accused.other()).into());
            }
            Alive::Yes => first
                .also
                .push(format!("the {} is alive", accused.other()).into()),
            // A stream that is cut on both sides at once is one lost connection, not two.
            Alive::Gone(failure) if first.what == What::StreamLost => {
                first
                    .also
                    .push(format!("the {} as well: {}", failure.side, failure.detail).into());
            }
            Alive::Gone(failure) => first = first.behind(Failure { stage, ..failure }),
            Alive::Silent if matches!(first.what, What::StreamLost | What::Stopped) => {
                first
                    .also
                    .push(format!("the {} does not answer either", accused.other()).into());
            }
            Alive::Silent => {
                let detail = format!("it did not answer a ping within {} s", ALIVE.as_secs());
                first = first.behind(Failure::new(accused.other(), stage, What::Stopped, detail));
            }
        }
        first
    }

    async fn finish<T: Open, I: Open>(
        mut self,
        target: &End<'_, T>,
        initiator: &End<'_, I>,
        mut failure: Option<Failure>,
    ) -> TransferRecord {
        let root = &self.settings.root;
        let (killed_t, killed_i) = tokio::join!(
            self.target.leave(target, root),
            self.initiator.leave(initiator, root)
        );
        for (role, oom) in [(Role::Target, killed_t), (Role::Initiator, killed_i)] {
            if let Some(f) = failure
                .as_mut()
                .filter(|f| oom && f.side == role && f.what == What::Killed)
            {
                f.what = What::OutOfMemory;
            }
        }
        TransferRecord {
            format: FORMAT,
            backend: self.settings.backend.as_str().into(),
            memory: self.settings.memory,
            same_container: self.settings.same_container,
            target: self.target.record,
            initiator: self.initiator.record,
            connected_s: self.connected_s,
            steps: self.steps,
            failure,
        }
    }
}

enum Alive {
    Yes,
    Silent,
    NeverWas,
    Gone(Failure),
}

impl OneEnd {
    fn new(role: Role, label: &str, settings: &Settings) -> Self {
        // UCX prints at most 31 characters of an agent's name.
        let end = match role {
            Role::Target => "t",
            Role::Initiator => "i",
        };
        let tag = format!("probe-{}-{end}", settings.nonce);
        Self {
            role,
            tag,
            side: None,
            begun: false,
            // One end may fail before the other one is begun with.
            record: EndRecord {
                label: label.into(),
                ..EndRecord::default()
            },
            md: String::new(),
            addr: 0,
        }
    }

    /// Tries one interpreter after the other until one can import NIXL.
    async fn bring_up<O: Open>(
        &mut self,
        end: &End<'_, O>,
        settings: &Settings,
    ) -> Result<(), Failure> {
        let mut last = Failure::new(
            self.role,
            Stage::Start,
            What::NoPython,
            "no interpreter was named",
        );
        for python in &end.pythons {
            let argv = bootstrap::start_argv(python, &end.ld, &self.tag);
            let outcome = match timeout(settings.limits.start, end.place.open(&argv)).await {
                Ok(Ok(stream)) => self.start(stream, end, settings).await,
                Ok(Err(e)) => Err(Failure::new(
                    self.role,
                    Stage::Start,
                    What::opening(&e),
                    e.why(),
                )),
                Err(_) => Err(Failure::new(
                    self.role,
                    Stage::Start,
                    What::Deadline,
                    "the command did not start in time",
                )),
            };
            let gave_up = outcome.as_ref().err().map(|f| f.detail.clone());
            self.record.tried.push(Attempt {
                python: python.as_str().into(),
                gave_up,
            });
            match outcome {
                Ok(ready) => {
                    self.md = ready.md.clone();
                    self.addr = ready.addr;
                    self.record.ready = Some(ready);
                    return Ok(());
                }
                // An interpreter without NIXL says more about the container than one that does not run, and that more
                // than one that is not there.
                Err(f) => match (telling(f.what), telling(last.what)) {
                    (None, _) => return Err(f),
                    (now, before) if now < before => {}
                    _ => last = f,
                },
            }
        }
        Err(last)
    }

    async fn start<O: Open>(
        &mut self,
        stream: Stream,
        end: &End<'_, O>,
        settings: &Settings,
    ) -> Result<Ready, Failure> {
        let (role, limits) = (self.role, &settings.limits);
        let mut env: BTreeMap<String, String> = end.env.clone();
        env.extend(LOGGING.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let buffer = settings
            .steps
            .iter()
            .map(|s| s.bytes * s.descs)
            .max()
            .unwrap_or(8);
        let start = Command::Start(Box::new(Start {
            proto: PROTO,
            role,
            name: self.tag.clone(),
            backend: settings.backend.clone(),
            mem: settings.memory,
            gpu: settings.gpu,
            gpu_margin: limits.gpu_margin,
            bytes: buffer,
            run_bytes: limits.run_bytes,
            rss_bytes: limits.rss_bytes,
            // Ours comes first, so that a deadline is reported in words.
            deadline_s: limits.run.as_secs() + 10,
            idle_s: (limits.start * 2 + PING * 3).as_secs(),
            env,
            unset_env: Vec::new(),
            echo: settings.echo.clone(),
            root: settings.root.clone(),
        }));
        self.begun = false;
        let side = self.side.insert(Side::new(stream));
        side.send(&bootstrap::source_frame()).await;
        side.command(&start).await;
        let deadline = Instant::now() + limits.start;
        let incoming = loop {
            match tokio::time::timeout_at(deadline, side.incoming.recv()).await {
                Ok(Some(Incoming::Event(Event::Hello))) if !self.begun => self.begun = true,
                incoming => break incoming,
            }
        };
        let failure = match incoming {
            Ok(Some(Incoming::Event(Event::Ready(ready)))) if ready.bytes == buffer => {
                return Ok(*ready);
            }
            Ok(Some(Incoming::Event(Event::Fatal(fatal)))) => {
                Failure::fatal(role, Stage::Ready, &fatal)
            }
            Ok(Some(Incoming::Event(event))) => {
                let e = ProtocolError::Unexpected {
                    wanted: "ready",
                    got: event.word(),
                };
                Failure::new(role, Stage::Ready, What::Nonsense, e.to_string())
            }
            Ok(Some(Incoming::Bad(e))) => {
                Failure::new(role, Stage::Ready, What::of(&e), e.to_string())
            }
            Ok(Some(Incoming::End) | None) if self.begun => {
                Failure::ended(role, Stage::Ready, side.ended(LEAVE).await.as_ref())
            }
            Ok(Some(Incoming::End) | None) => {
                let ended = side.ended(LEAVE).await;
                let (log, _) = side.texts().await;
                Failure::not_begun(role, ended.as_ref(), &complaints::of(&log, 1))
            }
            Err(_) if self.begun => {
                let detail = format!("no agent within {} s", limits.start.as_secs());
                Failure::new(role, Stage::Ready, What::Deadline, detail)
            }
            Err(_) => {
                let seconds = limits.start.as_secs();
                let detail = format!("the interpreter did not run the probe within {seconds} s");
                Failure::new(role, Stage::Start, What::Deadline, detail)
            }
        };
        Err(failure)
    }

    fn running(&self) -> bool {
        self.side.as_ref().is_some_and(Side::running)
    }

    async fn alive(&mut self) -> Alive {
        let Some(side) = &mut self.side else {
            return Alive::NeverWas;
        };
        side.command(&Command::Ping).await;
        let deadline = Instant::now() + ALIVE;
        loop {
            let incoming = tokio::select! {
                incoming = side.incoming.recv() => incoming,
                () = sleep_until(deadline) => return Alive::Silent,
            };
            match incoming {
                Some(Incoming::Event(Event::Fatal(fatal))) => {
                    return Alive::Gone(Failure::fatal(self.role, Stage::Bye, &fatal));
                }
                Some(Incoming::Event(Event::Pong)) => return Alive::Yes,
                Some(Incoming::Event(_)) => {}
                Some(Incoming::Bad(e)) => {
                    return Alive::Gone(Failure::new(
                        self.role,
                        Stage::Bye,
                        What::of(&e),
                        e.to_string(),
                    ));
                }
                Some(Incoming::End) | None => {
                    return Alive::Gone(Failure::ended(
                        self.role,
                        Stage::Bye,
                        side.ended(LEAVE).await.as_ref(),
                    ));
                }
            }
        }
    }

    /// Closes the end, waits for it, ends what is left of it. True: the kernel killed it for want of memory.
    async fn leave<O: Open>(&mut self, end: &End<'_, O>, root: &str) -> bool {
        let Some(mut side) = self.side.take() else {
            return false;
        };
        side.close();
        if !self.begun {
            // What has not run the program does not leave by it, and its interpreter ends nothing either.
            if side.ended(NOT_BEGUN).await.is_none() {
                side.abandon().await;
            }
            let ended = side.ended(Duration::ZERO).await;
            self.record.ended = Some(ended.unwrap_or(Ended::StillRunning));
            (self.record.log, self.record.junk) = side.texts().await;
            return false;
        }
        let mut ended = side.ended(LEAVE).await;
        let killed = ended.as_ref().and_then(Ended::signal) == Some(9);
        let mut oom = false;
        if killed || matches!(ended, None | Some(Ended::Lost(_))) {
            let before = self.record.ready.as_ref().and_then(|r| r.cgroup.oom_kill);
            let python = self
                .record
                .tried
                .last()
                .map_or("python3", |a| &a.python)
                .to_owned();
            let after = sweep(end.place, &bootstrap::sweep_argv(&python, root, &self.tag)).await;
            oom =
                killed && matches!((before, after), (Some(before), Some(after)) if after > before);
            ended = side.ended(LEAVE).await;
        }
        let ended = ended.unwrap_or(Ended::StillRunning);
        self.record.ended = Some(ended);
        (self.record.log, self.record.junk) = side.texts().await;
        oom
    }
}

/// How much a failure says about the interpreters of a container, of those after which the next one is tried.
fn telling(what: What) -> Option<u8> {
    match what {
        What::NoPython => Some(0),
        What::BadPython => Some(1),
        What::NoNixl => Some(2),
        _ => None,
    }
}

/// Runs the clean-up command; returns how often the kernel has killed in the container.
async fn sweep<O: Open>(place: &O, argv: &[String]) -> Option<u64> {
    let run = async {
        let stream = place.open(argv).await.ok()?;
        drop(stream.stdin);
        let mut text = String::new();
        stream
            .stdout
            .take(4096)
            .read_to_string(&mut text)
            .await
            .ok()?;
        stream.status.await;
        text.lines()
            .find_map(|l| l.strip_prefix("oom_kill ")?.trim().parse().ok())
    };
    timeout(Duration::from_secs(5), run).await.ok()?
}

fn difference(before: &Counters, after: &Counters) -> Counters {
    let moved = |(name, now): (&Words, &i64)| {
        let change = now.checked_sub(*before.get(name)?)?;
        (change != 0).then(|| (name.clone(), change))
    };
    after.iter().filter_map(moved).collect()
}
