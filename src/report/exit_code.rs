//! What the pipeline should do.

/// The documented exit codes. Where rules meet, 2 and 4 come first, and 1 wins over 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    /// No check failed.
    Ok = 0,
    /// At least one check failed; with `--fail-on warn`, at least one warned. Or nothing could be judged.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// `--require-trusted` was given, and trust is anything but trusted.
    NotTrusted = 3,
    /// Something named could not be read, a transfer that was asked for came to no answer, the way to a container failed, or
    /// the run's own time was over first; the report of the rest is still printed.
    CouldNotRun = 4,
    /// Interrupted; the report of what was seen until then is still printed.
    Interrupted = 130,
}

impl ExitCode {
    /// All codes, in order, for the documentation.
    pub const ALL: [Self; 6] = [
        Self::Ok,
        Self::Failed,
        Self::Usage,
        Self::NotTrusted,
        Self::CouldNotRun,
        Self::Interrupted,
    ];

    /// What it means, in one sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "no check failed",
            Self::Failed => {
                "at least one check failed (`--fail-on warn` or `--strict`: or warned), or nothing that was given could be judged (no worker in the manifests, nothing usable in pasted outputs); `--fail-on never`: not used"
            }
            Self::Usage => "the command line is wrong",
            Self::NotTrusted => "`--require-trusted` was given and trust is not `trusted`",
            Self::CouldNotRun => {
                "something that was asked for could not be done: a named file or deployment does not exist, cannot be read or is not what it is named as, a transfer (`--transfer`) was not made or came to no answer, a container was out of reach (the API server, a proxy or the kubelet turned the request away, or the connection broke), or the time of the whole run (`--deadline`) was over before everything was looked at; the report of everything else is still printed"
            }
            Self::Interrupted => {
                "interrupted (Ctrl-C or SIGTERM); the report of what was seen until then is still printed, and a second one ends at once"
            }
        }
    }
}
