//! Messages of a log, each shape kept once and counted.
//!
//! A program in trouble repeats itself with other addresses: `ucx_info -d` under a small memlock limit prints the same
//! error tens of thousands of times. A tally stays small whatever the log does.

use super::transcript;
use std::collections::BTreeMap;

/// Shapes kept; further ones are only counted.
const SHAPES: usize = 64;

/// Characters of a message that decide its shape.
const SHAPE_LENGTH: usize = 160;

/// Distinct messages in order of first appearance, with how often each was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    messages: Vec<Message>,
    by_shape: BTreeMap<String, usize>,
    /// Messages of shapes beyond the limit.
    pub beyond: u64,
}

/// One shape of message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The first message of this shape, sanitised, without secrets.
    pub first: String,
    /// How often this shape was seen.
    pub times: u64,
}

impl Tally {
    /// Counts one message. Messages that differ only in numbers have the same shape.
    pub fn add(&mut self, message: &str) {
        let shape = shape(message);
        if let Some(&at) = self.by_shape.get(&shape) {
            self.messages[at].times += 1;
        } else if self.messages.len() < SHAPES {
            self.by_shape.insert(shape, self.messages.len());
            self.messages.push(Message {
                first: transcript::message(message),
                times: 1,
            });
        } else {
            self.beyond += 1;
        }
    }

    /// The distinct messages.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// True when nothing was added.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// All messages added, repeated or not.
    pub fn total(&self) -> u64 {
        self.beyond + self.messages.iter().map(|m| m.times).sum::<u64>()
    }
}

/// The message with every run of hexadecimal digits that holds a decimal digit, `0x` included, as one `#`.
fn shape(message: &str) -> String {
    let mut shape = String::new();
    let mut number = String::new();
    for c in message.trim().chars().take(SHAPE_LENGTH) {
        if c.is_ascii_hexdigit() || (c == 'x' && number == "0") {
            number.push(c);
        } else {
            flush(&mut number, &mut shape);
            shape.push(c);
        }
    }
    flush(&mut number, &mut shape);
    shape
}

fn flush(number: &mut String, shape: &mut String) {
    if number.contains(|c: char| c.is_ascii_digit()) {
        shape.push('#');
    } else {
        shape.push_str(number);
    }
    number.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_differ_in_numbers_are_one() {
        let mut tally = Tally::default();
        for address in 0..10_000u32 {
            tally.add(&format!(
                "ibv_reg_mr(address=0x{address:x}, length=20971520, access=0xf) failed"
            ));
        }
        tally.add("another message");
        assert_eq!(tally.messages().len(), 2);
        assert_eq!(tally.messages()[0].times, 10_000);
        assert_eq!(tally.total(), 10_001);
    }

    #[test]
    fn no_secret_is_kept() {
        let mut tally = Tally::default();
        tally.add("Failed to auth with token hf_abcdefghijklmnopqrstuvwxyz012345 password=hunter2");
        let first = &tally.messages()[0].first;
        assert!(first.starts_with("Failed to auth"), "{first}");
        assert!(
            !first.contains("hf_abc") && !first.contains("hunter2"),
            "{first}"
        );
    }

    #[test]
    fn shapes_are_bounded() {
        let mut tally = Tally::default();
        for n in 0..1_000u32 {
            let word: String = (0..10)
                .map(|bit| if n >> bit & 1 == 1 { 'y' } else { 'z' })
                .collect();
            tally.add(&word);
        }
        assert_eq!(tally.messages().len(), SHAPES);
        assert_eq!(tally.total(), 1_000);
    }
}
