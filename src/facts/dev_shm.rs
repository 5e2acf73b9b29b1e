//! Size and use of `/dev/shm`: `df`, `/proc/self/mountinfo`, `/proc/mounts`, `stat -f`.

use super::Unparsable;
use super::transcript::{self, excerpt};

const PLACE: &str = "/dev/shm";

/// A file system as one output shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shm {
    /// What is mounted: `shm` and `tmpfs` are the runtime's, another name may be a volume.
    pub source: Option<String>,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// In use, in bytes.
    pub used_bytes: Option<u64>,
    /// Free for an ordinary process, in bytes.
    pub available_bytes: Option<u64>,
    /// The numbers were rounded by the tool (`df -h` rounds up to one or two digits).
    pub is_rounded: bool,
}

/// Reads whichever of the outputs was given.
pub fn parse(text: &str) -> Result<Shm, Unparsable> {
    parse_df(text)
        .or_else(|_| parse_mounts(text))
        .or_else(|_| parse_stat(text))
        .map_err(|_| Unparsable::new("df /dev/shm", text))
}

/// `df`, any unit. A long source name puts the numbers on the next line.
pub fn parse_df(text: &str) -> Result<Shm, Unparsable> {
    let mut unit = None;
    let mut wrapped = None;
    for line in transcript::lines(text) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&"Filesystem") {
            unit = words.iter().find_map(|word| Unit::of_header(word));
        } else if let Some(unit) = unit {
            if let [source] = words[..] {
                wrapped = Some(excerpt(source));
                continue;
            }
            let Some(mount) = words.iter().position(|word| *word == PLACE) else {
                wrapped = None;
                continue;
            };
            // Counted from the mount point, because the source may be on the line before, and a type column may follow
            // it: size, used, available, percent, place.
            let Some([size, used, available, _]) =
                mount.checked_sub(4).and_then(|at| words.get(at..mount))
            else {
                break;
            };
            let source = mount
                .checked_sub(5)
                .and_then(|_| words.first())
                .map(|source| excerpt(source))
                .or(wrapped);
            return Ok(Shm {
                source,
                size_bytes: unit.bytes(size),
                used_bytes: unit.bytes(used),
                available_bytes: unit.bytes(available),
                is_rounded: unit == Unit::Human,
            });
        }
    }
    Err(Unparsable::new("df /dev/shm", text))
}

/// Unit of the number columns of `df`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Blocks of that many bytes.
    Blocks(u64),
    /// Numbers with a suffix, powers of 1024.
    Human,
}

impl Unit {
    /// `1K-blocks`, `1024-blocks`, `1M-blocks`, `1B-blocks`, `512-blocks`, `Size`.
    fn of_header(word: &str) -> Option<Self> {
        if word == "Size" {
            return Some(Self::Human);
        }
        let block = word.strip_suffix("-blocks")?;
        Some(Self::Blocks(suffixed(block)?))
    }

    fn bytes(self, word: &str) -> Option<u64> {
        match self {
            Self::Blocks(size) => word.parse::<u64>().ok()?.checked_mul(size),
            Self::Human => suffixed(word),
        }
    }
}

/// `64M`, `1.5G`, `0`, `1B`: a number with a binary suffix.
fn suffixed(word: &str) -> Option<u64> {
    let number = transcript::number(word)?;
    let suffix = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let exponent = match suffix.trim_end_matches('B').trim_end_matches('i') {
        "" => 0,
        "K" | "k" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        _ => return None,
    };
    let bytes = number * 1024f64.powi(exponent);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, and a size is never negative here"
    )]
    Some(bytes as u64)
}

/// `/proc/self/mountinfo` or `/proc/mounts`: only the limit is there, and only where the mount names one. Without
/// `size=` a tmpfs may take half of the memory.
pub fn parse_mounts(text: &str) -> Result<Shm, Unparsable> {
    // The last mount over a place is the one in force.
    let mut found = None;
    for line in transcript::lines(text) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let separator = words.iter().position(|word| *word == "-");
        let (source, options) = match (&words[..], separator) {
            // id parent major:minor root place options.. - type source super-options
            ([_, _, _, _, place, ..], Some(at)) if *place == PLACE => {
                (words.get(at + 2), words.get(at + 3))
            }
            // source place type options 0 0
            ([source, place, _, options, ..], None) if *place == PLACE => {
                (Some(source), Some(options))
            }
            _ => continue,
        };
        found = Some(Shm {
            source: source.map(|source| excerpt(source)),
            size_bytes: options
                .into_iter()
                .flat_map(|options| options.split(','))
                .find_map(|option| option.strip_prefix("size="))
                .and_then(|size| suffixed(&size.to_ascii_uppercase())),
            ..Shm::default()
        });
    }
    found.ok_or_else(|| Unparsable::new("/proc/self/mountinfo", text))
}

/// `stat -f /dev/shm` of coreutils and busybox.
pub fn parse_stat(text: &str) -> Result<Shm, Unparsable> {
    let (mut block, mut blocks) = (None, None);
    for line in transcript::lines(text) {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("Block size:") {
            block = transcript::integer(rest);
        } else if let Some(rest) = line.strip_prefix("Blocks:") {
            let of = |name: &str| {
                let (_, tail) = rest.split_once(name)?;
                transcript::integer(tail)
            };
            blocks = Some((of("Total:"), of("Free:"), of("Available:")));
        }
    }
    let (Some(block), Some((Some(total), free, available))) = (block, blocks) else {
        return Err(Unparsable::new("stat -f /dev/shm", text));
    };
    let bytes = |count: u64| count.checked_mul(block);
    Ok(Shm {
        source: None,
        size_bytes: bytes(total),
        used_bytes: free.and_then(|free| bytes(total.checked_sub(free)?)),
        available_bytes: available.and_then(bytes),
        is_rounded: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    // Written by hand after coreutils 9.1, busybox 1.36 and Linux 6.1.
    #[test]
    fn every_source_gives_bytes() {
        for (name, text, size, used, available) in [
            (
                "df -k",
                "Filesystem     1K-blocks  Used Available Use% Mounted on
shm                65536  1024     64512   2% /dev/shm\n",
                Some(64 * MIB),
                Some(MIB),
                Some(63 * MIB),
            ),
            (
                "df -h, all file systems",
                "Filesystem      Size  Used Avail Use% Mounted on
overlay         1.8T  1.1T  600G  65% /
tmpfs            16G  1.5G   15G  10% /dev/shm\n",
                Some(16 << 30),
                Some(3 << 29),
                Some(15 << 30),
            ),
            (
                "df -T -B1",
                "Filesystem     Type  1B-blocks Used Available Use% Mounted on
tmpfs          tmpfs  67108864    0  67108864   0% /dev/shm\n",
                Some(64 * MIB),
                Some(0),
                Some(64 * MIB),
            ),
            (
                "busybox, wrapped",
                "Filesystem           1K-blocks      Used Available Use% Mounted on
a-very-long-name-of-a-volume
                         65536         0     65536   0% /dev/shm\n",
                Some(64 * MIB),
                Some(0),
                Some(64 * MIB),
            ),
            (
                "mountinfo",
                "640 630 0:52 / /dev/mqueue rw - mqueue mqueue rw
641 630 0:51 / /dev/shm rw,nosuid,nodev,noexec,relatime - tmpfs shm rw,size=65536k,inode64\n",
                Some(64 * MIB),
                None,
                None,
            ),
            (
                "mounts without a limit",
                "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n",
                None,
                None,
                None,
            ),
            (
                "stat -f",
                "  File: \"/dev/shm\"
    ID: 0        Namelen: 255     Type: tmpfs
Block size: 4096       Fundamental block size: 4096
Blocks: Total: 16384      Free: 16128      Available: 16128
Inodes: Total: 100        Free: 99\n",
                Some(64 * MIB),
                Some(MIB),
                Some(63 * MIB),
            ),
        ] {
            let shm = parse(text).unwrap();
            assert_eq!(
                (shm.size_bytes, shm.used_bytes, shm.available_bytes),
                (size, used, available),
                "{name}"
            );
        }
    }

    #[test]
    fn sources_are_kept() {
        let shm = parse("Filesystem 1K-blocks Used Available Use% Mounted on\nlong-name\n 65536 0 65536 0% /dev/shm\n").unwrap();
        assert_eq!(shm.source.as_deref(), Some("long-name"));
        let shm = parse("1 2 0:51 / /dev/shm rw - tmpfs shm rw,size=1g\n").unwrap();
        assert_eq!(
            (shm.source.as_deref(), shm.size_bytes),
            (Some("shm"), Some(1 << 30))
        );
    }

    #[test]
    fn other_places_are_not_it() {
        for text in [
            "",
            "Filesystem Size Used Avail Use% Mounted on\noverlay 1T 1T 0 99% /\n",
            "df: /dev/shm: No such file or directory\n",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
