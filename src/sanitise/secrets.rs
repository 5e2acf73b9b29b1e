//! Free text of a program (an error line, a log) without what may be a secret.

use crate::catalogue::{
    ends_an_authority, find, is_a_key, names_a_secret, ucx_name_known, withheld_of,
};
use std::borrow::Cow;

/// Stands for what is not shown.
const HIDDEN: &str = "***";
/// Names of credentials are shorter; what is longer is data.
const LONGEST_NAME: usize = 128;
/// A word without any name is a key if it is as long as one and mixes what no ordinary word mixes.
const RANDOM: usize = 32;

/// Free text without secrets; what is withheld shows as `***`. Withheld are values that a name sets (`NAME=value`,
/// `NAME: value`, `NAME => value`, `--name value`) where the name is that of a credential, or of a variable that is not in the
/// catalogue, or where a catalogued value holds credentials; what follows `Bearer`, `Basic`, `Authorization` and `Cookie`; the
/// logins that `curl` and `sshpass` take; user information and queries of URLs; keys of well-known services wherever they
/// stand; and whole PEM blocks. Line breaks stay.
pub fn withhold_secrets(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_pem = false;
    for (n, line) in text.split('\n').enumerate() {
        if n > 0 {
            out.push('\n');
        }
        match line.find("-----BEGIN") {
            Some(at) if !in_pem => {
                in_pem = !line[at..].contains("-----END");
                out.push_str(&withheld_line(&line[..at]));
                if !out.ends_with(HIDDEN) {
                    out.push_str(HIDDEN);
                }
            }
            _ if in_pem => {
                in_pem = !line.contains("-----END");
                out.push_str(HIDDEN);
            }
            _ => out.push_str(&withheld_line(line)),
        }
    }
    out
}

/// Masks user information and queries of URLs, wherever they stand.
pub fn without_credentials(text: &str) -> Cow<'_, str> {
    const AFTER: [char; 8] = [' ', '"', '\'', '<', '>', ')', '\t', '\n'];
    let mut parts = text.split("://");
    let first = parts.next().unwrap_or_default();
    if first.len() == text.len() {
        return Cow::Borrowed(text);
    }
    let mut out = first.to_owned();
    for part in parts {
        let (url, rest) = part.split_at(part.find(AFTER).unwrap_or(part.len()));
        let (before_query, query) = match url.split_once('?') {
            Some((before_query, _)) => (before_query, "?***"),
            None => (url, ""),
        };
        let shown = match before_query.rsplit_once('@') {
            Some((before, host)) if !ends_an_authority(before) => format!("***@{host}{query}"),
            // A password may hold a `?`, and then nothing says where it ends.
            None if url
                .split_once('@')
                .is_some_and(|(p, _)| !ends_an_authority(p)) =>
            {
                HIDDEN.to_owned()
            }
            _ => format!("{before_query}{query}"),
        };
        out.push_str("://");
        out.push_str(&shown);
        out.push_str(rest);
    }
    Cow::Owned(out)
}

fn of_a_word(c: char) -> bool {
    c.is_alphanumeric() || "_-.".contains(c)
}

fn withheld_line(line: &str) -> String {
    let line = without_credentials(line);
    let mut out = String::with_capacity(line.len());
    let mut rest: &str = &line;
    // `{"name": "HF_TOKEN", "value": ".."}`: what the entry `value` holds is that of the name before it.
    let mut secret_named = false;
    let mut of_sshpass = false;
    while let Some(start) = rest.find(of_a_word) {
        let (between, from) = rest.split_at(start);
        out.push_str(between);
        let end = from.find(|c| !of_a_word(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        let set = Set::of(word, after);
        let named = word.len() <= LONGEST_NAME
            && names_a_secret(word)
            && !is_an_error(word)
            && !set.is_some_and(|(_, value)| is_no_secret(word, value));
        if is_a_key(word) || is_random(word) || is_user_information(after) {
            out.push_str(HIDDEN);
            rest = &after[end_of_value(after, &[',', ';', ')'])..];
            continue;
        }
        if of_sshpass && word.starts_with("-p") && word.len() > 2 {
            out.push_str("-p");
            out.push_str(HIDDEN);
            rest = &after[end_of_value(after, &[])..];
            of_sshpass = false;
            continue;
        }
        out.push_str(word);
        rest = after;
        if let Some((set, value)) = set
            && set.is_withheld(word, named || (secret_named && word == "value"), value)
        {
            out.push_str(&after[..set.before]);
            let end = set.before + set.len;
            // A scheme says nothing, and what is withheld already has no end that could be found again.
            if !value.is_empty() {
                out.push_str(HIDDEN);
            }
            rest = &after[end..];
        } else if let Some((gap, value)) = argument(after)
            && ((of_sshpass && word == "-p") || (takes_a_login(word) && is_a_login(value)))
        {
            of_sshpass = false;
            out.push_str(&after[..gap]);
            out.push_str(HIDDEN);
            rest = &after[gap + value.len()..];
        } else if let Some(gap) = follows(word, named, between, after) {
            out.push_str(&after[..gap]);
            out.push_str(HIDDEN);
            let value = &after[gap..];
            let value = &value[..end_of_value(value, &[])];
            let end = value.trim_end_matches([',', ';', ')', '.']).len();
            rest = &after[gap + end..];
        }
        secret_named |= named;
        of_sshpass |= word == "sshpass";
    }
    out.push_str(rest);
    out
}

/// What a word before `=`, `:` or an arrow is set to.
#[derive(Clone, Copy)]
struct Set {
    sign: char,
    /// Bytes between the word and the value.
    before: usize,
    /// Bytes of the value, without its quotation marks.
    len: usize,
}

impl Set {
    /// The sign of an arrow that is no `=>`. Programs draw it for more than settings.
    const ARROW: char = '→';

    fn of<'a>(word: &str, after: &'a str) -> Option<(Self, &'a str)> {
        let quote = ["\\\"", "\"", "'"].iter().find(|q| after.starts_with(**q));
        let name_end = quote.map_or(0, |q| q.len());
        let sign_at = name_end + blanks(&after[name_end..]);
        let (sign, value_at) = match after[sign_at..].chars().next()? {
            '=' if after[sign_at..].starts_with("=>") => ('=', sign_at + 2),
            '-' if after[sign_at..].starts_with("->") => (Self::ARROW, sign_at + 2),
            sign => (sign, sign_at + sign.len_utf8()),
        };
        let is_pair = match sign {
            '=' | Self::ARROW => true,
            ':' => {
                !after[value_at..].starts_with([':', '/']) && !is_a_place(word, &after[value_at..])
            }
            _ => false,
        };
        if !is_pair {
            return None;
        }
        let mut before = value_at + blanks(&after[value_at..]);
        if after[before..].starts_with('=') {
            before += 1 + blanks(&after[before + 1..]);
        }
        let value = &after[before..];
        let len = match ["\\\"", "\"", "'"].iter().find(|q| value.starts_with(**q)) {
            Some(quote) => {
                before += quote.len();
                quoted(&value[quote.len()..], quote)
            }
            // A header or an entry of YAML takes the rest of its line; a quotation mark ends what stands in one.
            None if sign == ':' => value.find(['"', '\'']).unwrap_or(value.len()),
            None => end_of_value(value, &[]),
        };
        let value = &after[before..before + len];
        Some((Self { sign, before, len }, value))
    }

    fn is_withheld(self, word: &str, secret: bool, value: &str) -> bool {
        if self.sign == Self::ARROW {
            // Sentences and grammars draw one behind `token` and `key`.
            return secret && word.contains('_');
        }
        if secret {
            return true;
        }
        // What a catalogued variable or a name of UCX holds is shown, unless it holds credentials.
        if find(word).is_some() || ucx_name_known(word) {
            let value = value.split_whitespace().next().unwrap_or_default();
            return withheld_of(word, value);
        }
        let whole = word.contains('_') || (self.sign == '=' && value.parse::<u64>().is_err());
        whole && is_a_variable(word) && !is_an_error(word)
    }
}

/// `NAME` as variables are written.
fn is_a_variable(word: &str) -> bool {
    word.len() > 2
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && word
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// The name of an error is followed by its text: `LocalTokenNotFoundError: ..`, `CUDA_ERROR_INVALID_VALUE: ..`.
fn is_an_error(word: &str) -> bool {
    ["Error", "Exception", "Warning"]
        .iter()
        .any(|end| word.ends_with(end))
        || (is_a_variable(word)
            && word
                .split('_')
                .any(|w| matches!(w, "ERR" | "ERROR" | "ERRNO")))
}

/// `token.py:42: ..` is a place in a source file.
fn is_a_place(word: &str, after: &str) -> bool {
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    word.contains('.') && digits > 0 && !after[digits..].starts_with(|c: char| c.is_alphanumeric())
}

/// A name of a credential that names none here: `key` of a number is the key of a memory region or a partition, which
/// libfabric writes in up to 64 bits (`fi_mr_key`), and `auth` may say whether there is any.
fn is_no_secret(word: &str, value: &str) -> bool {
    let end = |c: char| c.is_whitespace() || ",;)]}".contains(c);
    let value = value.split(end).next().unwrap_or_default();
    match word.trim_start_matches('-') {
        w if w.eq_ignore_ascii_case("key") => value.strip_prefix("0x").is_some_and(|hex| {
            (1..=16).contains(&hex.len()) && hex.bytes().all(|b| b.is_ascii_hexdigit())
        }),
        w if w.eq_ignore_ascii_case("auth") => ["none", "off", "no", "false", "disabled"]
            .iter()
            .any(|no| value.eq_ignore_ascii_case(no)),
        _ => false,
    }
}

/// Options of curl(1) whose argument is `user:password`.
fn takes_a_login(word: &str) -> bool {
    ["-u", "-U", "--user", "--proxy-user"].contains(&word)
}

/// `user:password`; a user and a group in numbers, and an address with its scheme, are none.
fn is_a_login(value: &str) -> bool {
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    value.split_once(':').is_some_and(|(user, password)| {
        let numbers = number(user) && number(password);
        !(password.is_empty() || password.starts_with("//") || numbers)
    })
}

/// The argument behind an option: the bytes before it, and its text without the quotation marks. In a list of words
/// (`["-u", "a:b"]`, as programs quote a command) those of the option end and those of the argument begin in between.
fn argument(after: &str) -> Option<(usize, &str)> {
    const QUOTES: [&str; 3] = ["\\\"", "\"", "'"];
    let closing = QUOTES.iter().find(|q| after.starts_with(**q));
    let mut gap = closing.map_or(0, |q| q.len());
    if after[gap..].starts_with([',', '=']) {
        gap += 1;
    }
    gap += blanks(&after[gap..]);
    let opening = QUOTES.iter().find(|q| after[gap..].starts_with(**q));
    if gap == 0 || (closing.is_some() && opening != closing) {
        return None;
    }
    gap += opening.map_or(0, |q| q.len());
    let value = &after[gap..];
    let len = match opening {
        Some(quote) => quoted(value, quote),
        None => end_of_value(value, &[]),
    };
    (len > 0).then_some((gap, &value[..len]))
}

/// What follows `Basic` in a header: base64 of `user:password` (RFC 7617, section 2), as far as it stands here.
fn is_basic(text: &str) -> bool {
    let (mut bits, mut have) = (0_u32, 0);
    for b in text.bytes() {
        let six = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return false,
        };
        bits = (bits << 6 | u32::from(six)) & 0xffff;
        have += 6;
        if have >= 8 {
            have -= 8;
            if (bits >> have) as u8 == b':' {
                return true;
            }
        }
    }
    false
}

/// Where what follows a word without any sign begins, if it is withheld: `Bearer ..`, `--token ..`, `password hunter2`.
fn follows(word: &str, named: bool, between: &str, after: &str) -> Option<usize> {
    let gap = blanks(after);
    let next = &after[gap..];
    let next = &next[..end_of_value(next, &[])];
    if gap == 0 || next.is_empty() || next == HIDDEN {
        return None;
    }
    let is_bearer = word.eq_ignore_ascii_case("bearer");
    let ordinary = next
        .chars()
        .all(|c| c.is_ascii_lowercase() || ".,;:".contains(c));
    let withheld = if is_bearer {
        !(ordinary && ["token", "auth"].iter().any(|w| next.starts_with(w)))
    } else if word.eq_ignore_ascii_case("basic") {
        is_basic(next)
    } else if !named || word.eq_ignore_ascii_case("key") {
        false
    } else if word.starts_with("--") || between.ends_with(" -") {
        !next.starts_with('-')
    } else {
        let digit = next.bytes().any(|b| b.is_ascii_digit());
        let mixed = !ordinary && next.bytes().any(|b| b.is_ascii_lowercase());
        (digit && next.len() >= 6) || (mixed && next.len() >= 12)
    };
    withheld.then_some(gap)
}

/// `user:password@host` without a scheme, from behind the user.
fn is_user_information(after: &str) -> bool {
    let Some(rest) = after.strip_prefix(':') else {
        return false;
    };
    let word = &rest[..end_of_value(rest, &[',', ';', '/'])];
    word.split_once('@').is_some_and(|(password, host)| {
        !password.is_empty() && host.starts_with(|c: char| c.is_alphanumeric())
    })
}

/// As long as a key, and of capitals, small letters and digits in no order; the names of C++ symbols are none.
fn is_random(word: &str) -> bool {
    word.split(['_', '-', '.']).any(|run| {
        let count = |is: fn(&u8) -> bool| run.bytes().filter(is).count();
        run.len() >= RANDOM
            && !run.starts_with('Z')
            && count(u8::is_ascii_uppercase) >= 4
            && count(u8::is_ascii_lowercase) >= 4
            && count(u8::is_ascii_digit) >= 3
    })
}

fn blanks(text: &str) -> usize {
    text.len() - text.trim_start_matches([' ', '\t']).len()
}

/// Bytes up to the closing quotation mark, or all.
fn quoted(text: &str, quote: &str) -> usize {
    let mut from = 0;
    while let Some(at) = text[from..].find(quote) {
        let at = from + at;
        let escaped = quote.len() == 1 && text[..at].ends_with('\\');
        if !escaped {
            return at;
        }
        from = at + quote.len();
    }
    text.len()
}

/// Bytes of a value that no quotation mark encloses.
fn end_of_value(text: &str, also: &[char]) -> usize {
    text.find(|c: char| c.is_whitespace() || c == '"' || c == '\'' || also.contains(&c))
        .unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_withheld_wherever_they_stand() {
        for line in [
            "AWS_SECRET_ACCESS_KEY=CANARY",
            "export HF_TOKEN=CANARY UCX_TLS=rc",
            "env: HF_TOKEN = CANARY",
            "HF_TOKEN: CANARY words",
            "Authorization: Bearer CANARY",
            "authorization: Basic CANARY",
            "curl -H 'Authorization: Bearer CANARY' http://x",
            "curl -H \"X-Api-Key: CANARY\" http://x",
            "the bearer CANARY1 was refused",
            "Cookie: a=1; session=CANARY",
            "HF_TOKEN => CANARY",
            "HF_TOKEN=>CANARY",
            "{'HF_TOKEN' => 'CANARY and more'}",
            "HF_TOKEN -> CANARY",
            "HF_TOKEN → CANARY",
            "MY_OWN_SETTING => CANARY",
            "curl -u me:CANARY http://x",
            "curl -u 'me:a CANARY' http://x",
            "curl --user me:CANARY",
            "curl --user=me:CANARY",
            "curl -U me:CANARY --proxy-user me:CANARY",
            "exec: [\"curl\" \"-u\" \"me:CANARY\"]",
            "['curl', '--user', 'me:CANARY']",
            "sshpass -p CANARY ssh -p 22 node",
            "sshpass -v -pCANARY ssh node",
            "[\"sshpass\", \"-p\", \"a CANARY\"]",
            "key=0x204CANARY",
            "key=0x204,password=CANARY",
            "key=0x00112233445566778CANARY",
            "auth=CANARY",
            "auth=none,token=CANARY",
            "{\"token\": \"CANARY with blanks\"}",
            "{\\\"password\\\":\\\"CANARY\\\"}",
            "{'db_password': 'CANARY'}",
            "{'name': 'HF_TOKEN', 'value': 'CANARY'}",
            "password: CANARY, and more",
            "MY_OWN_SETTING=CANARY",
            "MY_OWN_SETTING: CANARY",
            "DSN=CANARY",
            "prog --api-key CANARY --verbose",
            "prog --password=CANARY",
            "Failed to auth with token CANARY1 password=CANARY",
            "aws_secret_access_key CANARYabcdefgh",
            "postgres://me:CANARY@db:5432/x",
            "root:CANARY@etcd:2379",
            "https://store/x?sig=CANARY",
            "NIXL_ETCD_ENDPOINTS=root:CANARY@etcd:2379",
            "-----BEGIN RSA PRIVATE KEY-----\nCANARY\n-----END RSA PRIVATE KEY-----",
        ] {
            let shown = withhold_secrets(line);
            assert!(!shown.contains("CANARY"), "{line} -> {shown}");
            assert!(shown.contains(HIDDEN), "{line} -> {shown}");
            assert_eq!(withhold_secrets(&shown), shown, "{line}");
        }
    }

    #[test]
    fn user_information_of_a_url_ends_where_its_authority_does() {
        for (line, shown) in [
            ("http://me:hunter2@h:1/x", "http://***@h:1/x"),
            ("http://me:hun/ter2@h:1/x", "http://***@h:1/x"),
            ("http://me:hun#ter2@h:1/x", "http://***@h:1/x"),
            ("http://me:hunter2@h/x@y?z=1", "http://***@y?***"),
            ("http://me:hun?ter2@h/x is lost", "http://*** is lost"),
            ("http://[fd00::1]:80:x@h", "http://***@h"),
            ("http://[me/x]:hunter2@h", "http://***@h"),
            ("http://h/x@y", "http://h/x@y"),
            ("http://h:1/x@y?z=1", "http://h:1/x@y?***"),
            ("http://h?mail=x@y", "http://h?***"),
            ("http://h:1#x@y", "http://h:1#x@y"),
            ("http://[fd00::1]/x@y", "http://[fd00::1]/x@y"),
            ("http://[fd00::1]:80/x@y", "http://[fd00::1]:80/x@y"),
            ("http://[fe80::1%25eth0]/x@y", "http://[fe80::1%25eth0]/x@y"),
        ] {
            assert_eq!(without_credentials(line), shown);
            let again = without_credentials(shown).into_owned();
            assert_eq!(without_credentials(&again), again);
        }
    }

    #[test]
    fn keys_of_services_need_no_name() {
        for key in [
            "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.a-b_C",
            "AKIAIOSFODNN7EXAMPLE",
            "ghp_0123456789abcdefghij",
            "nvapi-aB1_c-D2efghijkl",
            "sk-proj-aB1cD2eF3gH4iJ5k",
            "dckr_pat_aB1cD2eF3gH4iJ5kL6mN7oP8qR9",
            "GOCSPX-abcdefghijklmnopqrstuvwxyzab",
            "wJalrXUtnFEMI7K7MDENG2bPxRfiCYEXAMPLEKEY",
        ] {
            for line in [
                key.to_owned(),
                format!("no ({key}), sorry"),
                format!("/x/{key}/y"),
            ] {
                let shown = withhold_secrets(&line);
                assert!(!shown.contains(&key[..12]), "{line} -> {shown}");
            }
        }
        assert_eq!(
            withhold_secrets("token hf_aBcDeFgHiJkLmNoPqRsT, again"),
            "token ***, again"
        );
    }

    #[test]
    fn a_login_of_basic_is_withheld_where_it_is_one() {
        for line in [
            "Basic dXNlcjpwYXNz",
            "sent basic dXNlcjpwYXNzd29yZA==, refused",
            "Proxy said: Basic OnBhc3M=",
        ] {
            let shown = withhold_secrets(line);
            assert!(shown.contains(HIDDEN), "{line} -> {shown}");
            assert!(!shown.contains("jp") && !shown.contains("OnB"), "{shown}");
        }
    }

    #[test]
    fn what_programs_say_stays() {
        for line in [
            "ModuleNotFoundError: No module named 'nixl'",
            "huggingface_hub.errors.LocalTokenNotFoundError: Token is required",
            "File \"/usr/lib/python3.12/token.py\", line 42, in f",
            "token.py:42: tokens are counted",
            "CUDA_ERROR_INVALID_VALUE: invalid argument (1)",
            "UCX_TLS=rc,cuda_copy UCX_NET_DEVICES=mlx5_0:1 NCCL_DEBUG=INFO",
            "UCX_IB_ROCE_LOCAL_SUBNET: y",
            "[1764547592.123456] [host:77:0] ib_mlx5_log.c:177 UCX  ERROR Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)",
            "ucp_worker.c:1870 UCX  INFO    ep_cfg[2]: tag(rc_mlx5/mlx5_0:1) rma(rc_mlx5/mlx5_0:1)",
            "| 8..inf | zero-copy | 50% on rc_mlx5/mlx5_0:1 and 50% on rc_mlx5/mlx5_1:1 |",
            "E1201 12:00:00.000 123 nixl_agent.cpp:123] _ZN4nixl11nixlUcxEngine12Abc34567890Defghi failed",
            "MTU=4096 ACTIVE=1",
            "GPU-5a1b2c3d-aaaa-bbbb-cccc-0123456789ab has 3 tokens",
            "Permission denied (bearer token is missing)",
            "password authentication failed for user",
            "http://h:1/a@b answered 401",
            "RDMA READ addr=0x7f0000000000 key=0x204 length=4096",
            "key: 0x204, value=5 bytes",
            "fi_read failed: key=0x1122334455667788)",
            "etcd auth=none endpoints=1",
            "auth: disabled",
            "Basic checks of mlx5_0:1 passed",
            "WWW-Authenticate: Basic realm=x",
            "Basic AllReduce of 8 ranks",
            "docker run --user 1000:1000 image",
            "python3 -u -m dynamo.vllm -p 22",
            "ulimit -u: 1024",
            "NCCL INFO Channel 00/0 : 0[0] -> 1[0] via P2P/CUMEM",
            "PROXY -> RING of 8",
            "one token -> ALLOW_ALL",
            "`key` -> `name`; key -> value",
        ] {
            assert_eq!(withhold_secrets(line), line);
        }
    }

    proptest::proptest! {
        #[test]
        fn a_second_pass_shows_no_more(
            words in proptest::collection::vec("[a-z]{0,3}[=:\"'@/ ,.-]{0,2}|HF_TOKEN|password|Bearer|UCX_TLS|--key|-u|sshpass|-p|=>|Basic|hf_aB1aB1aB1aB1aB1|://|-----BEGIN|\\PC", 0..14),
        ) {
            let once = withhold_secrets(&words.concat());
            proptest::prop_assert!(withhold_secrets(&once).len() <= once.len());
        }
    }

    #[test]
    fn hostile_text_is_no_trouble() {
        for text in [
            "=",
            ":",
            "a=",
            "é=é",
            "token",
            "token ",
            "\"=\"",
            "--",
            "HF_TOKEN=",
            "é:é@é",
            "://@",
            "\n\n",
        ] {
            let _ = withhold_secrets(text);
        }
        assert_eq!(withhold_secrets("HF_TOKEN="), "HF_TOKEN=");
    }
}
