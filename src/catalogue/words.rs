//! How owners and kinds of values are called in text.

use super::variable::{Owner, ValueKind};
use std::fmt;

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ucx => "UCX",
            Self::Nccl => "NCCL",
            Self::Nixl => "NIXL",
            Self::Libfabric => "libfabric",
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
            Self::Trtllm => "TensorRT-LLM",
            Self::Mooncake => "Mooncake",
            Self::Dynamo => "Dynamo",
            Self::Torch => "PyTorch and Gloo",
            Self::System => "system",
        })
    }
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "y, yes, 1, on, n, no, 0, off (not true or false)",
            Self::Ternary => "y, yes, 1, on, n, no, 0, off, try (not true or false)",
            Self::TernaryAuto => "y, yes, 1, on, n, no, 0, off, try, auto (not true or false)",
            Self::OnOffAuto => "on, off, try, auto",
            Self::Uint => "a number, inf",
            Self::UintAuto => "a number, inf, auto",
            Self::Fraction => "a decimal fraction",
            Self::MemUnits => "bytes (8192, 64k, 1g), inf, auto",
            Self::Threshold => {
                "bytes (8192, 64k, 1g), inf, auto; from UCX 1.17 on also intra:BYTES,inter:BYTES"
            }
            Self::Time => "a time (20s, 300ms), inf",
            Self::DeviceList => "a list of devices",
            Self::TransportList => "a list of transports, or ^ and a list of what to leave out",
            Self::Integer => "an integer (anything without digits is 0)",
            Self::FiBool => "0, 1, true, false, yes, no, on, off",
            Self::Switch => "a switch",
            Self::Number => "a whole number",
            Self::Port => "a TCP port",
            Self::Address => "a host name or address",
            Self::Json => "JSON",
            Self::Path => "a path",
            Self::Form(form) => form,
            Self::Unread => "nothing: no current version reads it",
            Self::Text => "text",
            Self::Enum(words) | Self::Word(words) | Self::Choice(words) => {
                return f.write_str(&words.join(", "));
            }
        })
    }
}
