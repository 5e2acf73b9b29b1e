//! From what was seen to what it was: exit codes, signals and last words become kinds of failure. Pure.

use super::protocol::{Fatal, ProtocolError, Role, Words};
use super::record::{Failure, Stage, What};
use super::stream::{Ended, OpenError};

impl Failure {
    pub(super) fn new(side: Role, stage: Stage, what: What, detail: impl Into<String>) -> Self {
        Self {
            side,
            stage,
            what,
            detail: Words::said(&detail.into()),
            also: Vec::new(),
        }
    }

    /// This complaint is a consequence of `cause`.
    pub(super) fn behind(self, mut cause: Self) -> Self {
        cause
            .also
            .push(format!("the {} said: {}", self.side, self.detail).into());
        cause.also.extend(self.also);
        cause
    }

    pub(super) fn fatal(side: Role, stage: Stage, fatal: &Fatal) -> Self {
        let what = match fatal.code {
            4 => What::StreamLost,
            10 => What::NoNixl,
            11 => What::AgentCreate,
            12 if &*fatal.why == "no-plugin" => What::NoPlugin,
            12 if &*fatal.why == "local-backend" => What::LocalBackend,
            12 => What::NoBackend,
            20 if &*fatal.why == "gpu-memory" => What::GpuMemory,
            20 => What::HostMemory,
            21 => What::Register,
            22 => What::RssLimit,
            30 => What::Connect,
            31 => What::Prepare,
            32 if fatal.phase.as_deref() == Some("stall") => What::Stall,
            32 => What::Transfer,
            _ => What::AgentError,
        };
        let mut detail = fatal.detail.to_string();
        if let (What::Register, Some([soft, _])) = (what, fatal.memlock) {
            let shown = if soft < 0 {
                "unlimited".to_owned()
            } else {
                format!("{soft} bytes")
            };
            detail = format!("{detail} (RLIMIT_MEMLOCK is {shown})");
        }
        Self::new(side, stage, what, detail)
    }

    /// The interpreter ended before it ran the program: it says nothing about NIXL. `said` is what it complained of.
    pub(super) fn not_begun(side: Role, ended: Option<&Ended>, said: &[String]) -> Self {
        let failure = Self::ended(side, Stage::Start, ended);
        let ended = match (failure.what, ended) {
            (What::Crashed, Some(ended)) | (What::StreamLost, Some(ended @ Ended::Code(_))) => {
                ended
            }
            _ => return failure,
        };
        let said = match said.last() {
            Some(line) => format!(": {line}"),
            None => String::new(),
        };
        let detail = format!("it ended before the probe began ({ended}){said}");
        Self::new(side, Stage::Start, What::BadPython, detail)
    }

    pub(super) fn ended(side: Role, stage: Stage, ended: Option<&Ended>) -> Self {
        let Some(ended) = ended else {
            let detail = "its output ended, and nothing is known about its process";
            return Self::new(side, stage, What::StreamLost, detail);
        };
        let what = match (ended, ended.signal()) {
            (Ended::NoProgram(_) | Ended::Code(126 | 127), _) => What::NoPython,
            (_, Some(9)) => What::Killed,
            (_, Some(14)) => What::Deadline,
            (_, Some(_)) => What::Crashed,
            (Ended::Lost(_) | Ended::Code(4), _) => What::StreamLost,
            (Ended::Code(_) | Ended::Signal(_) | Ended::StillRunning, None) => What::Crashed,
        };
        // A connection that broke and a program that is not there say all there is to say.
        let detail = match ended {
            Ended::Lost(why) => why.to_string(),
            Ended::NoProgram(_) => ended.to_string(),
            _ => format!("it ended without a word ({ended})"),
        };
        Self::new(side, stage, what, detail)
    }
}

impl What {
    pub(super) fn of(e: &ProtocolError) -> Self {
        match e {
            ProtocolError::Flood(_) => Self::Flood,
            _ => Self::Nonsense,
        }
    }

    pub(super) fn opening(e: &OpenError) -> Self {
        match e {
            OpenError::NoProgram(_) => Self::NoPython,
            OpenError::Refused(_) => Self::Refused,
            OpenError::Lost(_) => Self::StreamLost,
        }
    }
}
