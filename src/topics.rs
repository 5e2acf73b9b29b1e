//! What `explain` says of subjects that are no check, rule or variable: how a figure is computed, and what nobody can see from
//! a container.

use crate::budget;
use crate::report::{KvPath, SkipReason, Status, Trust};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// One subject.
#[derive(Debug)]
pub struct Topic {
    /// As one asks for it.
    pub name: &'static str,
    /// In one line.
    pub title: &'static str,
    /// Paragraphs.
    pub text: &'static str,
    /// Where it comes from; empty where the text is this tool's own.
    pub sources: &'static str,
}

/// All of them.
pub const ALL: &[Topic] = &[
    Topic {
        name: "kv-budget",
        title: "How long the KV cache of a prompt travels (check --isl)",
        text: budget::EXPLANATION,
        sources: "",
    },
    Topic {
        name: "firewall",
        title: "Packets that are dropped between the nodes",
        text: "Cannot be seen from here: rules of nftables, iptables, a cloud's security group or a NetworkPolicy stand on the node, \
               in the network or in the API, and a container sees only that nobody answers. No check is ok because of it, and none \
               fails.

What it looks like: the workers find each other by name and answer a ping, and the handshake (NIXL's side channel, SGLang's \
bootstrap, NCCL's sockets) waits until it times out. On RoCE UDP port 4791 carries the data itself; on EFA the security group must \
let all traffic of its own members pass. InfiniBand data passes no firewall, its handshake does.

How to look: `check --transfer` moves data between the pods and says whether the handshake or the data path failed. On the node, \
as root: `nft list ruleset`, `iptables -S`, and `ufw status` where it is used; look for a policy that drops. In the cluster: \
`kubectl get networkpolicies -A`. NCCL takes any free port, so that a list of open ports does not help it.",
        sources: "sgl-project/sglang#3794; NVIDIA/nccl#352, #388; horovod/horovod#1408; UDP 4791: InfiniBand Architecture \
                  Specification, Annex A17 (RoCEv2); AWS guide \"Get started with EFA\".",
    },
    Topic {
        name: "acs",
        title: "PCIe bridges that send traffic between GPU and adapter up to the CPU",
        text: "Can be seen from here in part: that a virtual machine shows GPU and adapter below one bridge (GPU008), and that the \
               IOMMU translates (GPU007). Access control services (ACS) of the bridges themselves stand in configuration space \
               that only root on the node may read, so whether they redirect is not known here, and no check is ok because of it.

What it looks like: GPUDirect is slow or hangs, UCX or NCCL end with a local protection error, or KV arrives as garbage with HTTP \
200.

How to look: `check --transfer` compares every byte, and its rate tells a detour. On the node, as root: `lspci -vvv | grep -i \
acsctl`: on a bare machine `SrcValid+` or `ReqRedir+` on the bridges between GPU and adapter is wrong. Switch ACS off in the \
firmware, or with `setpci` at every boot. In a virtual machine it is the other way round: ATS on the adapter, and ACS with direct \
translated peer-to-peer on the hypervisor. Grace needs none of this.",
        sources: "NVIDIA/nccl#2079, #304, #489; openucx/ucx#9515; ai-dynamo/dynamo#12463; NCCL troubleshooting guide, \"PCI Access \
                  Control Services\"; NVIDIA AI Enterprise, \"GPUDirect RDMA in virtual machines\".",
    },
    Topic {
        name: "pfc",
        title: "RoCE that loses packets: flow control, traffic classes, ECN",
        text: "Cannot be seen from here: which priorities are lossless stands in the adapter's firmware and in the switches. \
               Variables that choose a class (`UCX_IB_TRAFFIC_CLASS`, `NCCL_IB_TC`) are shown; whether the fabric treats that \
               class as lossless is not known here, and no check is ok because of it.

What it looks like: transfers of a few hundred MB/s or less under load, retry errors (\"transport retry count exceeded\"), or a \
stall while everything is up. `out_of_sequence`, `packet_seq_err` and `local_ack_timeout_err` grow; the check of errors of ports \
(RDMA016) tells what they say now.

How to look: on the node `mlnx_qos -i <interface>` names the lossless priority, `cma_roce_tos` and \
`/sys/class/infiniband/<device>/tc/1/traffic_class` the class that is set for all, and `ethtool -S <interface> | grep -i prio` \
the pauses. The class must be lossless on every hop of the path, and the same at both ends: a class that is set globally does not \
reach whoever sets its own, and `NCCL_IB_TC` must then name it too. `check --transfer` measures the path with nothing else on it; \
losses that come with load it does not see.",
        sources: "NVIDIA/nccl#378, #2383; openucx/ucx#10325, #6000.",
    },
];

/// One of them.
pub fn find(name: &str) -> Option<&'static Topic> {
    ALL.iter()
        .find(|topic| topic.name.eq_ignore_ascii_case(name))
}

/// A word of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// As JSON and text write it.
    pub word: &'static str,
    /// What it is a word for.
    pub kind: &'static str,
    /// What it means and what to do.
    pub meaning: &'static str,
    /// How a sentence says it; empty where it is the word itself.
    said_as: &'static str,
}

/// All words of reports: verdicts, statuses, reasons of a skip, parts in trust, and keys of their JSON.
pub fn words() -> impl Iterator<Item = Word> {
    let trust = Trust::ALL.map(|t| (t.word(), "verdict (trust)", t.meaning(), ""));
    let headline = [
        ("NOT PROVEN", Trust::Unproven),
        ("NOT TRUSTED", Trust::Untrusted),
    ];
    let headlines = headline.map(|(said, t)| (t.word(), "verdict (trust)", t.meaning(), said));
    let status = Status::ALL.map(|s| (s.word(), "status of a finding", s.meaning(), ""));
    let reason = SkipReason::ALL.map(|r| (r.word(), "reason of a skip", r.meaning(), r.words()));
    let parts = [KvPath::Required, KvPath::Supporting, KvPath::Off];
    let part = parts.map(|p| (p.word(), "part in trust (kv_path)", p.meaning(), ""));
    let all = trust.into_iter().chain(headlines).chain(status);
    let keys = KEYS.iter();
    let keys =
        keys.map(|(key, meaning)| (key.as_str(), "key of a JSON report", meaning.as_str(), ""));
    let all = all.chain(reason).chain(part).chain(keys);
    all.map(|(word, kind, meaning, said_as)| Word {
        word,
        kind,
        meaning,
        said_as,
    })
}

/// The meanings of a word, however it is written: `Not Proven`, `not_applicable`. One may have several.
pub fn meanings(text: &str) -> Vec<Word> {
    let plain = |text: &str| text.trim().to_lowercase().replace([' ', '_'], "-");
    let asked = plain(text);
    let mut found: Vec<Word> = Vec::new();
    for word in words() {
        let is = asked == plain(word.word) || asked == plain(word.said_as);
        let key = |w: &Word| (w.word, w.kind, w.meaning);
        if is && !asked.is_empty() && !found.iter().any(|other| key(other) == key(&word)) {
            found.push(word);
        }
    }
    found
}

/// The keys of a report, each with where it stands and what the schema says of it, which is what the fields themselves say.
static KEYS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let schema = include_str!("../docs/report.schema.json");
    let schema = serde_json::from_str(schema).unwrap_or_default();
    let mut keys = Keys {
        schema: &schema,
        open: Vec::new(),
        found: BTreeMap::new(),
    };
    keys.of_object(&schema, "");
    let found = keys.found.into_iter();
    found
        .map(|((key, says), places)| (key.to_owned(), format!("{}: {says}", places.join(", "))))
        .collect()
});

/// A walk through a schema.
struct Keys<'a> {
    schema: &'a Value,
    /// Names of the definitions that the walk is in.
    open: Vec<&'a str>,
    /// The places of each key that means the same in all of them.
    found: BTreeMap<(&'a str, String), Vec<String>>,
}

impl<'a> Keys<'a> {
    fn of_object(&mut self, object: &'a Value, at: &str) {
        for (key, field) in object["properties"].as_object().into_iter().flatten() {
            let place = match at {
                "" => key.clone(),
                at => format!("{at}.{key}"),
            };
            let mut says = field["description"].as_str().unwrap_or_default().to_owned();
            let words = self.words_of(field);
            if !words.is_empty() {
                says.push_str(&format!(" One of: {}.", words.join(", ")));
            }
            let places = self.found.entry((key, says)).or_default();
            places.push(place.clone());
            self.of_value(field, &place);
        }
    }

    fn of_value(&mut self, value: &'a Value, at: &str) {
        self.of_object(value, at);
        if let Some((name, definition)) = self.definition(value)
            && !self.open.contains(&name)
        {
            self.open.push(name);
            self.of_value(definition, at);
            self.open.pop();
        }
        for other in value["anyOf"].as_array().into_iter().flatten() {
            self.of_value(other, at);
        }
        if value["items"].is_object() {
            self.of_value(&value["items"], &format!("{at}[]"));
        }
        if value["additionalProperties"].is_object() {
            self.of_value(&value["additionalProperties"], &format!("{at}.*"));
        }
    }

    fn definition(&self, value: &'a Value) -> Option<(&'a str, &'a Value)> {
        let name = value["$ref"].as_str()?.strip_prefix("#/$defs/")?;
        Some((name, &self.schema["$defs"][name]))
    }

    /// The words that a value may be, where they are counted up.
    fn words_of(&self, value: &'a Value) -> Vec<&'a str> {
        let mut words = Vec::new();
        if let Some((_, definition)) = self.definition(value) {
            let all = definition["oneOf"].as_array().into_iter().flatten();
            words.extend(all.filter_map(|one| one["const"].as_str()));
        }
        for other in value["anyOf"].as_array().into_iter().flatten() {
            words.extend(self.words_of(other));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_a_report_has_a_meaning() {
        for word in words() {
            let found = meanings(word.word);
            assert!(found.iter().any(|w| w.kind == word.kind), "{}", word.word);
            assert!(word.meaning.ends_with(['.', '?']), "{}", word.word);
        }
        let of = |text: &str| -> Vec<&str> { meanings(text).iter().map(|w| w.word).collect() };
        assert_eq!(of("NOT PROVEN"), ["unproven"]);
        assert_eq!(of("not trusted"), ["untrusted"]);
        assert_eq!(of("Not Applicable"), ["not-applicable", "not-applicable"]);
        assert_eq!(of("not read"), ["not-collected"]);
        assert_eq!(of("warmth"), Vec::<&str>::new());
        assert_eq!(of(""), Vec::<&str>::new());
    }

    #[test]
    fn every_key_of_a_report_has_a_meaning() {
        let said = |key: &str| -> Vec<&str> {
            let all = meanings(key).into_iter();
            all.filter(|w| w.kind.starts_with("key"))
                .map(|w| w.meaning)
                .collect()
        };
        assert_eq!(
            said("kv_path"),
            ["checks[].kv_path: Its part in trust. One of: required, supporting, off."]
        );
        assert_eq!(said("KV path"), said("kv_path"));
        for key in ["proven", "lane", "not_seen", "fix_first", "trust"] {
            assert!(!said(key).is_empty(), "{key}");
        }
        // What a key is said to be is what its schema says, wherever a definition is used.
        let schema = include_str!("../docs/report.schema.json");
        let mut keys = std::collections::BTreeSet::new();
        let mut open = vec![serde_json::from_str::<Value>(schema).unwrap()];
        while let Some(value) = open.pop() {
            for (key, below) in value.as_object().into_iter().flatten() {
                if key == "properties" {
                    keys.extend(below.as_object().unwrap().keys().cloned());
                }
                open.push(below.clone());
            }
        }
        assert!(keys.len() > 100);
        for key in keys {
            assert!(!said(&key).is_empty(), "{key}");
            for meaning in said(&key) {
                assert!(
                    meaning.ends_with(['.', '?']) && !meaning.contains("[`"),
                    "{meaning}"
                );
            }
        }
    }
}
