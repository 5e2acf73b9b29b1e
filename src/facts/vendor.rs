//! Who made an RDMA device, and which product it is.

use std::fmt;

/// Maker of an RDMA device. Decides which UCX transports exist on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vendor {
    /// NVIDIA (Mellanox): `mlx4`, `mlx5`.
    Nvidia,
    /// Amazon: `efa`.
    Amazon,
    /// Broadcom: `bnxt_re`.
    Broadcom,
    /// Intel: `irdma`.
    Intel,
    /// AMD Pensando: `ionic`.
    Pensando,
    /// Microsoft: `mana`.
    Microsoft,
    /// Alibaba: `erdma`.
    Alibaba,
    /// No hardware at all: `rxe` and `siw` put verbs over an ordinary network interface.
    Software,
    /// An id outside the table.
    Other(u32),
}

impl Vendor {
    /// From the PCI vendor id, as in `/sys/class/infiniband/<device>/device/vendor`.
    ///
    /// Ids of the providers of rdma-core:
    /// <https://github.com/linux-rdma/rdma-core/tree/v55.0/providers>
    pub fn from_pci(id: u32) -> Self {
        match id {
            0x15b3 => Self::Nvidia,
            0x1d0f => Self::Amazon,
            0x14e4 => Self::Broadcom,
            0x8086 => Self::Intel,
            0x1dd8 => Self::Pensando,
            0x1414 => Self::Microsoft,
            0x1ded => Self::Alibaba,
            other => Self::Other(other),
        }
    }

    /// From `vendor_id` of `ibv_devinfo`: the PCI id with most drivers, the IEEE number 0x02c9 with Mellanox, 0xffffff with
    /// `rxe` (`RXE_VENDOR_ID`; older kernels show 0) and 0x626d74 with `siw` (`SIW_VENDOR_ID`).
    /// <https://github.com/torvalds/linux/blob/v6.12/drivers/infiniband/sw/rxe/rxe_param.h>,
    /// <https://github.com/torvalds/linux/blob/v6.12/drivers/infiniband/sw/siw/siw.h>
    pub fn from_verbs(id: u32) -> Self {
        match id {
            0x02c9 => Self::Nvidia,
            0x00ff_ffff | 0x0062_6d74 => Self::Software,
            other => Self::from_pci(other),
        }
    }
}

impl fmt::Display for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nvidia => f.write_str("NVIDIA"),
            Self::Amazon => f.write_str("Amazon"),
            Self::Broadcom => f.write_str("Broadcom"),
            Self::Intel => f.write_str("Intel"),
            Self::Pensando => f.write_str("AMD Pensando"),
            Self::Microsoft => f.write_str("Microsoft"),
            Self::Alibaba => f.write_str("Alibaba"),
            Self::Software => f.write_str("software"),
            Self::Other(id) => write!(f, "vendor 0x{id:04x}"),
        }
    }
}

/// A product line of NVIDIA network adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adapter {
    /// Product name.
    pub name: &'static str,
    /// A virtual function of it.
    pub virtual_function: bool,
}

impl Adapter {
    /// The product with this PCI device id of vendor 0x15b3.
    ///
    /// Ids of the mlx5 driver; its virtual functions are the next higher id, or 0x101e.
    /// <https://github.com/torvalds/linux/blob/v6.12/drivers/net/ethernet/mellanox/mlx5/core/main.c>
    pub fn nvidia(device_id: u32) -> Option<Self> {
        if device_id == 0x101e {
            return Some(Self {
                name: "ConnectX virtual function",
                virtual_function: true,
            });
        }
        let product = |id: u32| {
            NVIDIA_ADAPTERS
                .iter()
                .find(|(known, _)| *known == id)
                .map(|(_, name)| *name)
        };
        if let Some(name) = product(device_id) {
            return Some(Self {
                name,
                virtual_function: false,
            });
        }
        // Only the ConnectX lines number their virtual functions this way.
        let physical = device_id.checked_sub(1)?;
        let name = product(physical).filter(|name| name.starts_with("ConnectX"))?;
        Some(Self {
            name,
            virtual_function: true,
        })
    }
}

const NVIDIA_ADAPTERS: &[(u32, &str)] = &[
    (0x1017, "ConnectX-5"),
    (0x1019, "ConnectX-5 Ex"),
    (0x101b, "ConnectX-6"),
    (0x101d, "ConnectX-6 Dx"),
    (0x101f, "ConnectX-6 Lx"),
    (0x1021, "ConnectX-7"),
    (0x1023, "ConnectX-8"),
    (0x1025, "ConnectX-9"),
    (0xa2d6, "BlueField-2"),
    (0xa2dc, "BlueField-3"),
    (0xa2df, "BlueField-4"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_and_pci_number_mellanox_differently() {
        assert_eq!(Vendor::from_verbs(0x02c9), Vendor::Nvidia);
        assert_eq!(Vendor::from_pci(0x15b3), Vendor::Nvidia);
        assert_eq!(Vendor::from_pci(0x02c9), Vendor::Other(0x02c9));
        assert_eq!(Vendor::from_verbs(0x1d0f), Vendor::Amazon);
        assert_eq!(Vendor::from_verbs(0xff_ffff), Vendor::Software);
        assert_eq!(Vendor::from_verbs(0x62_6d74), Vendor::Software);
    }

    #[test]
    fn virtual_functions_are_named_after_their_product() {
        for (id, expected) in [
            (0x1021, Some(("ConnectX-7", false))),
            (0x1018, Some(("ConnectX-5", true))),
            (0x101e, Some(("ConnectX virtual function", true))),
            (0xa2dc, Some(("BlueField-3", false))),
            (0xa2dd, None),
            (0, None),
        ] {
            let adapter = Adapter::nvidia(id).map(|a| (a.name, a.virtual_function));
            assert_eq!(adapter, expected, "{id:#x}");
        }
    }
}
