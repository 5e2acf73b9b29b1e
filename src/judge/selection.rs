//! Which RDMA ports a list of devices chooses, for checks that know the ports.

use super::context::Context;
use super::nccl_lists::List;
use super::net_devices::expand;

/// A list of devices that restricts.
pub enum Selection<'a> {
    /// `UCX_NET_DEVICES`: exact names.
    Ucx {
        /// The list says what to leave out.
        exclude: bool,
        /// Names as UCX takes them.
        names: Vec<String>,
        /// Names without a port stand for all ports of a device (UCX 1.21 and later).
        portless: bool,
    },
    /// `NCCL_IB_HCA`: prefixes.
    Nccl(NcclList<'a>),
}

/// The list of NCCL.
pub struct NcclList<'a>(List<'a>);

impl<'a> Selection<'a> {
    /// Reads `UCX_NET_DEVICES`. `None`: it restricts nothing, as `all` and unset do.
    pub fn ucx(value: Option<&str>, cx: &Context) -> Option<Self> {
        // Where the version is not known the newer reading is taken: whether an older one refuses the value is what the
        // judgement of the variable says.
        let newer = cx.ucx.is_none() || cx.ucx_at_least(1, 21);
        let value = value?;
        let (exclude, list) = match value.strip_prefix('^') {
            Some(rest) if newer => (true, rest),
            _ => (false, value),
        };
        let tokens: Vec<&str> = list.split(',').filter(|token| !token.is_empty()).collect();
        if tokens.is_empty() || tokens.contains(&"all") {
            return None;
        }
        Some(Self::Ucx {
            exclude,
            names: expand(&tokens, cx),
            portless: newer,
        })
    }

    /// Reads `NCCL_IB_HCA`. `None`: it restricts nothing.
    pub fn nccl(value: Option<&'a str>) -> Option<Self> {
        // An unknown version is read as an old one.
        let list = List::parse(value?, None);
        (list.exclude || !list.items.is_empty()).then_some(Self::Nccl(NcclList(list)))
    }

    /// The port is chosen.
    pub fn selects(&self, device: &str, port: u32) -> bool {
        match self {
            Self::Ucx { exclude, names, .. } => {
                let named = (0..names.len()).any(|at| self.matches(at, device, port));
                named != *exclude
            }
            Self::Nccl(NcclList(list)) => list.selects(device, Some(port)),
        }
    }

    /// What the list asks for, as written; empty for a list of what to leave out.
    pub fn wanted(&self) -> Vec<&str> {
        match self {
            Self::Ucx { exclude: true, .. } => vec![],
            Self::Ucx { names, .. } => names.iter().map(String::as_str).collect(),
            Self::Nccl(NcclList(list)) if list.exclude => vec![],
            Self::Nccl(NcclList(list)) => list.items.iter().map(|item| item.text).collect(),
        }
    }

    /// The entry at this place of the list stands for the port.
    pub fn matches(&self, at: usize, device: &str, port: u32) -> bool {
        match self {
            Self::Ucx {
                names, portless, ..
            } => names
                .get(at)
                .is_some_and(|name| match name.split_once(':') {
                    Some((named, number)) => named == device && number == port.to_string(),
                    None => *portless && name == device,
                }),
            Self::Nccl(NcclList(list)) => list
                .items
                .get(at)
                .is_some_and(|item| list.matches(item, device, Some(port))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::context::Version;

    fn chosen(selection: Option<Selection<'_>>) -> Option<Vec<&'static str>> {
        let selection = selection?;
        let names = ["mlx5_0", "mlx5_1", "mlx5_10"];
        let chosen = names.into_iter().filter(|name| selection.selects(name, 1));
        Some(chosen.collect())
    }

    #[test]
    fn ucx_names_are_exact_and_nccl_names_are_prefixes() {
        let old = Context {
            ucx: Some(Version::new(1, 20)),
            ..Context::default()
        };
        let new = Context {
            ucx: Some(Version::new(1, 22)),
            ..Context::default()
        };
        let ucx = |value, cx| chosen(Selection::ucx(value, cx));
        assert_eq!(ucx(None, &new), None);
        assert_eq!(ucx(Some("all"), &new), None);
        assert_eq!(ucx(Some("mlx5_1:1"), &old), Some(vec!["mlx5_1"]));
        assert_eq!(ucx(Some("mlx5_1"), &old), Some(vec![]));
        assert_eq!(ucx(Some("mlx5_1"), &new), Some(vec!["mlx5_1"]));
        assert_eq!(ucx(Some("^mlx5_1"), &new), Some(vec!["mlx5_0", "mlx5_10"]));
        assert_eq!(
            ucx(Some("mlx5_[0-1]:1"), &new),
            Some(vec!["mlx5_0", "mlx5_1"])
        );
        let nccl = |value| chosen(Selection::nccl(value));
        assert_eq!(nccl(Some("")), None);
        assert_eq!(nccl(Some("mlx5_1")), Some(vec!["mlx5_1", "mlx5_10"]));
        assert_eq!(nccl(Some("=mlx5_1")), Some(vec!["mlx5_1"]));
        assert_eq!(nccl(Some("^=mlx5_1")), Some(vec!["mlx5_0", "mlx5_10"]));
        assert_eq!(nccl(Some("mlx5_1:2")), Some(vec![]));
    }
}
