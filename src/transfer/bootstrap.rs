//! How an agent is started, and how what is left of one is ended: commands without a shell, nothing written to disk.

use std::collections::BTreeMap;

/// The program that runs in the container.
pub const AGENT: &str = include_str!("agent.py");

/// Reads the length and then the source from standard input, which stays open for commands. Dropping the empty entry
/// of `sys.path` keeps a stray `queue.py` in the working directory from being imported. The version is looked at first, in
/// words that Python 2 understands: the source would break on an old one somewhere.
const BOOTSTRAP: &str = "import sys;sys.version_info<(3,8) and sys.exit('Python %d.%d, and 3.8 or later is needed'\
%sys.version_info[:2]);sys.path=[p for p in sys.path if p];b=sys.stdin.buffer;\
exec(compile(b.read(int(b.readline())),'<probe>','exec'))";

/// Ends what is left of an agent, found by its own last argument, and reads how often the kernel killed in this
/// container. Arguments: fixture root, tag.
const SWEEP: &str = "import os,sys
r,t=sys.argv[1],sys.argv[2].encode()
for p in os.listdir('/proc'):
 try:
  if p.isdigit() and int(p)!=os.getpid() and open('/proc/'+p+'/cmdline','rb').read().split(b'\\0')[-2]==t:os.kill(int(p),9)
 except (OSError,IndexError):pass
for f in ('/sys/fs/cgroup/memory.events','/sys/fs/cgroup/memory/memory.oom_control'):
 try:
  for l in open(r+f):
   if l.startswith('oom_kill '):print(l.strip())
 except OSError:pass
";

/// The command that starts an agent. `ld` are the worker's `LD_*` variables: they act only before a program starts, so
/// `env` sets them. `tag` is unique per run and end; it finds the process again.
pub fn start_argv(python: &str, ld: &BTreeMap<String, String>, tag: &str) -> Vec<String> {
    let mut argv = Vec::new();
    if !ld.is_empty() {
        argv.push("env".to_owned());
        argv.extend(ld.iter().map(|(name, value)| format!("{name}={value}")));
    }
    argv.extend([python, "-B", "-u", "-c", BOOTSTRAP, tag].map(str::to_owned));
    argv
}

/// The command that ends what is left of an agent.
pub fn sweep_argv(python: &str, root: &str, tag: &str) -> Vec<String> {
    [python, "-B", "-c", SWEEP, root, tag]
        .map(str::to_owned)
        .to_vec()
}

/// What standard input carries first: the length of the program, and the program.
pub fn source_frame() -> Vec<u8> {
    format!("{}\n{AGENT}", AGENT.len()).into_bytes()
}
