//! `nvidia-smi nvlink -s` (`--status`): each NVLink of each GPU, with its rate.
//!
//! With `-i` the tool shows one GPU and says nothing of the others. An inactive link is normal on bridged PCIe cards and
//! a fault on NVSwitch boards; the output alone does not tell which.

use super::Unparsable;
use super::transcript::{self, excerpt};
use std::collections::BTreeMap;

/// The GPUs that the output shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Nvlinks {
    /// In the order of the output.
    pub gpus: Vec<GpuLinks>,
    /// Lines that were not understood.
    pub unread_lines: u32,
}

/// The links of one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuLinks {
    /// Number of the GPU.
    pub index: u32,
    /// Product name.
    pub product: String,
    /// UUID of the GPU.
    pub uuid: Option<String>,
    /// The links, in order.
    pub links: Vec<Link>,
    /// What the tool said instead of listing links.
    pub verdict: Option<Verdict>,
}

/// One link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Number of the link.
    pub index: u32,
    /// Rate in one direction in GB/s (10^9 bytes); `None` when the link is inactive.
    pub rate_gbytes_per_s: Option<f64>,
}

/// Words in place of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The GPU has no NVLink.
    Unsupported,
    /// The GPU has NVLink and every link is inactive.
    AllInactive,
}

impl GpuLinks {
    /// How many links are active.
    pub fn active(&self) -> usize {
        self.links
            .iter()
            .filter(|link| link.rate_gbytes_per_s.is_some())
            .count()
    }
}

impl Nvlinks {
    /// The last GPU lists fewer links than another, and nothing says why: the copy is cut within it. Where none lists any they
    /// have none: for such GPUs the tool prints no line.
    pub fn breaks_off(&self) -> bool {
        let listed = |gpu: &GpuLinks| gpu.links.len();
        let most = self.gpus.iter().map(listed).max();
        let last = self.gpus.last().filter(|gpu| gpu.verdict.is_none());
        last.is_some_and(|gpu| Some(listed(gpu)) < most)
    }
}

const TOOL: &str = "nvidia-smi nvlink -s";

/// Reads the output.
pub fn parse(text: &str) -> Result<Nvlinks, Unparsable> {
    let mut nvlinks = Nvlinks::default();
    for line in transcript::lines(text) {
        let line = line.trim();
        if line.is_empty() || transcript::prompt(line).is_some() {
            continue;
        }
        if let Some(gpu) = heading(line) {
            nvlinks.gpus.push(gpu);
            continue;
        }
        let taken = nvlinks.gpus.last_mut().is_some_and(|gpu| {
            if let Some(link) = link(line) {
                gpu.links.push(link);
                true
            } else {
                gpu.verdict = gpu.verdict.or(verdict(line));
                gpu.verdict.is_some()
            }
        });
        if !taken {
            nvlinks.unread_lines += 1;
        }
    }
    if nvlinks.gpus.is_empty() {
        return Err(Unparsable::new(TOOL, text));
    }
    if let Some(index) = once(&mut nvlinks.gpus) {
        return Err(Unparsable::two_places(TOOL, &format!("GPU {index} twice")));
    }
    Ok(nvlinks)
}

/// Takes each GPU once. The number of one that is there twice and is not shown to be the same, by its UUID and all of its links.
fn once(gpus: &mut Vec<GpuLinks>) -> Option<u32> {
    let mut seen: BTreeMap<u32, GpuLinks> = BTreeMap::new();
    for gpu in gpus.iter() {
        match seen.get(&gpu.index) {
            Some(known) if known != gpu || gpu.uuid.is_none() => return Some(gpu.index),
            Some(_) => {}
            None => {
                seen.insert(gpu.index, gpu.clone());
            }
        }
    }
    gpus.retain(|gpu| seen.remove(&gpu.index).is_some());
    None
}

/// `GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-..)`, a verdict on the same line or not.
fn heading(line: &str) -> Option<GpuLinks> {
    let (index, rest) = line.strip_prefix("GPU ")?.split_once(':')?;
    let (product, tail) = rest.split_once("(UUID:").unwrap_or((rest, ""));
    let (uuid, tail) = tail.split_once(')').unwrap_or((tail, ""));
    Some(GpuLinks {
        index: index.trim().parse().ok()?,
        product: excerpt(product),
        uuid: (!uuid.trim().is_empty()).then(|| excerpt(uuid)),
        links: Vec::new(),
        verdict: verdict(tail),
    })
}

/// `Link 4: 26.562 GB/s`, `Link 4: <inactive>`.
fn link(line: &str) -> Option<Link> {
    let (index, state) = line.strip_prefix("Link ")?.split_once(':')?;
    let state = state.trim();
    let rate = transcript::number(state);
    if rate.is_none() && !state.eq_ignore_ascii_case("<inactive>") {
        return None;
    }
    Some(Link {
        index: index.trim().parse().ok()?,
        rate_gbytes_per_s: rate,
    })
}

/// Sentences of nvidia-smi; their capitals differ between drivers.
fn verdict(words: &str) -> Option<Verdict> {
    let words: String = words.chars().take(transcript::EXCERPT).collect();
    let words = words.to_ascii_lowercase();
    if words.contains("does not have or support nvlink") {
        Some(Verdict::Unsupported)
    } else if words.contains("all links are inactive") {
        Some(Verdict::AllInactive)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Written by hand after `nvidia-smi nvlink -s` of R550.
    const OUTPUT: &str = "GPU 0: NVIDIA H100 PCIe (UUID: GPU-00000000-0000-0000-0000-000000000001)
\t Link 0: 26.562 GB/s
\t Link 1: <inactive>
GPU 1: NVIDIA RTX A4000 (UUID: GPU-2) Device does not have or support Nvlink
GPU 2: NVIDIA A40 (UUID: GPU-3)
NVML: Unable to retrieve NVLink information as all links are inActive
GPU 3: NVIDIA GB200 (UUID: GPU-4)
\t Link 0: on holiday
";

    #[test]
    fn links_and_verdicts_belong_to_their_gpu() {
        let nvlinks = parse(OUTPUT).unwrap();
        let gpus: Vec<_> = nvlinks
            .gpus
            .iter()
            .map(|gpu| (gpu.index, gpu.links.len(), gpu.active(), gpu.verdict))
            .collect();
        assert_eq!(
            gpus,
            [
                (0, 2, 1, None),
                (1, 0, 0, Some(Verdict::Unsupported)),
                (2, 0, 0, Some(Verdict::AllInactive)),
                (3, 0, 0, None),
            ]
        );
        assert_eq!(nvlinks.gpus[0].links[0].rate_gbytes_per_s, Some(26.562));
        assert_eq!(nvlinks.unread_lines, 1);
        assert!(parse("Link 0: 25 GB/s\n").is_err());
    }
}
