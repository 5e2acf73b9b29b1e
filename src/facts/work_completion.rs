//! Statuses of RDMA work completions (`enum ibv_wc_status`): a log shows the number, the name or both.

/// Names and meanings by number.
/// <https://github.com/linux-rdma/rdma-core/blob/v54.0/libibverbs/verbs.h>,
/// `ibv_wc_status_str` of <https://github.com/linux-rdma/rdma-core/blob/v54.0/libibverbs/enum_strs.c>
const STATUSES: [(&str, &str); 24] = [
    ("IBV_WC_SUCCESS", "success"),
    ("IBV_WC_LOC_LEN_ERR", "local length error"),
    ("IBV_WC_LOC_QP_OP_ERR", "local QP operation error"),
    ("IBV_WC_LOC_EEC_OP_ERR", "local EE context operation error"),
    ("IBV_WC_LOC_PROT_ERR", "local protection error"),
    ("IBV_WC_WR_FLUSH_ERR", "work request flushed error"),
    ("IBV_WC_MW_BIND_ERR", "memory management operation error"),
    ("IBV_WC_BAD_RESP_ERR", "bad response error"),
    ("IBV_WC_LOC_ACCESS_ERR", "local access error"),
    ("IBV_WC_REM_INV_REQ_ERR", "remote invalid request error"),
    ("IBV_WC_REM_ACCESS_ERR", "remote access error"),
    ("IBV_WC_REM_OP_ERR", "remote operation error"),
    ("IBV_WC_RETRY_EXC_ERR", "transport retry counter exceeded"),
    ("IBV_WC_RNR_RETRY_EXC_ERR", "RNR retry counter exceeded"),
    ("IBV_WC_LOC_RDD_VIOL_ERR", "local RDD violation error"),
    ("IBV_WC_REM_INV_RD_REQ_ERR", "remote invalid RD request"),
    ("IBV_WC_REM_ABORT_ERR", "aborted error"),
    ("IBV_WC_INV_EECN_ERR", "invalid EE context number"),
    ("IBV_WC_INV_EEC_STATE_ERR", "invalid EE context state"),
    ("IBV_WC_FATAL_ERR", "fatal error"),
    ("IBV_WC_RESP_TIMEOUT_ERR", "response timeout error"),
    ("IBV_WC_GENERAL_ERR", "general error"),
    ("IBV_WC_TM_ERR", "TM error"),
    ("IBV_WC_TM_RNDV_INCOMPLETE", "TM software rendezvous"),
];

/// The name of a status that a log shows as a number or by name; none for one that is not known.
pub fn name(word: &str) -> Option<&'static str> {
    let by_number = || STATUSES.get(word.parse::<usize>().ok()?);
    let known = STATUSES.iter().find(|(name, _)| *name == word);
    known.or_else(by_number).map(|(name, _)| *name)
}

/// What a status of this name means, in the words of rdma-core.
pub fn meaning(name: &str) -> Option<&'static str> {
    let known = STATUSES.iter().find(|(other, _)| *other == name);
    known.map(|(_, meaning)| *meaning)
}

/// The number of a status of this name.
pub fn number(name: &str) -> Option<usize> {
    STATUSES.iter().position(|(other, _)| *other == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_header() {
        for (number, wanted) in [
            (4, "IBV_WC_LOC_PROT_ERR"),
            (5, "IBV_WC_WR_FLUSH_ERR"),
            (10, "IBV_WC_REM_ACCESS_ERR"),
            (12, "IBV_WC_RETRY_EXC_ERR"),
            (13, "IBV_WC_RNR_RETRY_EXC_ERR"),
            (20, "IBV_WC_RESP_TIMEOUT_ERR"),
            (23, "IBV_WC_TM_RNDV_INCOMPLETE"),
        ] {
            assert_eq!(name(&number.to_string()), Some(wanted));
            assert_eq!(name(wanted), Some(wanted));
            assert_eq!(super::number(wanted), Some(number));
        }
        assert_eq!(name("24"), None);
        assert_eq!(name(""), None);
        assert_eq!(
            meaning("IBV_WC_RETRY_EXC_ERR"),
            Some("transport retry counter exceeded")
        );
    }
}
