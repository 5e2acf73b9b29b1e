//! The shells a script must run under, tools that stand in for real ones, and the processes they leave.

use crate::machine::Scratch;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A shell, the directory its tools come from, and a mark by which its processes are found again.
pub struct Shell {
    pub name: &'static str,
    bin: Scratch,
    mark: String,
}

/// dash, bash and busybox, with only its own applets. One that is not installed is skipped aloud.
pub fn shells() -> Vec<Shell> {
    ["dash", "bash", "busybox"]
        .into_iter()
        .filter_map(Shell::new)
        .collect()
}

/// The shell that a machine of the tests is sure to have.
pub fn any_shell() -> Shell {
    shells().swap_remove(0)
}

impl Shell {
    fn new(name: &'static str) -> Option<Self> {
        let Some(program) = which(name) else {
            skipped(&format!(
                "{name} is not installed, so nothing was shown about it"
            ));
            return None;
        };
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mark = format!(
            "mark-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let bin = Scratch::new();
        symlink(&program, bin.path().join("sh")).unwrap();
        if name == "busybox" {
            let applets = "head grep sed tr sort setsid sleep timeout uname df readlink dd";
            for applet in applets.split(' ') {
                symlink(&program, bin.path().join(applet)).unwrap();
            }
        }
        Some(Self { name, bin, mark })
    }

    /// Puts a tool in front of the machine's own.
    pub fn tool(&self, name: &str, script: &str) {
        let path = self.bin.path().join(name);
        drop(fs::remove_file(&path));
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The shell as it is started for a script on its standard input.
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.bin.path().join("sh"));
        let path = format!("{}:/usr/bin:/bin", self.bin.path().display());
        command
            .arg("-s")
            .env_clear()
            .env("PATH", path)
            .env("TEST_MARK", &self.mark)
            .env("HOME", self.bin.path());
        command
    }

    /// Directory of the tools, which is also the home of the probe.
    pub fn bin(&self) -> &Scratch {
        &self.bin
    }

    /// Processes that carry the mark of this shell.
    pub fn left_behind(&self) -> Vec<String> {
        let mark = format!("TEST_MARK={}\0", self.mark);
        let pids = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| Some(entry.ok()?.path()));
        let marked = pids.filter(|path| {
            fs::read(path.join("environ"))
                .is_ok_and(|e| e.windows(mark.len()).any(|w| w == mark.as_bytes()))
        });
        marked
            .map(|path| {
                fs::read_to_string(path.join("cmdline"))
                    .unwrap_or_default()
                    .replace('\0', " ")
            })
            .collect()
    }

    /// Waits until no marked process is left, or says which are.
    pub fn assert_nothing_left_within(&self, time: Duration) {
        let began = Instant::now();
        loop {
            let left = self.left_behind();
            if left.is_empty() {
                return;
            }
            assert!(
                began.elapsed() < time,
                "{}: left behind after {time:?}: {left:#?}",
                self.name
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A program on the machine's own path.
pub fn which(name: &str) -> Option<PathBuf> {
    ["/usr/bin", "/bin"]
        .iter()
        .map(|dir| Path::new(dir).join(name))
        .find(|path| path.exists())
}

/// Says what was not shown. Past the capture of the test runner, so that it is seen when all tests pass.
pub fn skipped(what: &str) {
    let mut stderr = std::io::stderr();
    std::io::Write::write_fmt(&mut stderr, format_args!("SKIPPED: {what}\n")).unwrap();
}
