//! The archive of a recording: one file in a tar in zstd, read within bounds.

use super::{FILE, Limits, write_json};
use crate::snapshot::Bundle;
use std::io::{self, BufWriter, Read, Write as _};

/// Memory that a compressed file may ask for, as a power of two: what `zstd -19` needs.
const WINDOW_LOG: u32 = 27;

/// Strength of the compression: answers of containers are alike and lie close together, so a stronger one, with a window and
/// tables of 15 MB, gains little.
const LEVEL: i32 = 3;

/// Size of the blocks of a tar.
const BLOCK: u64 = 512;

/// Counts what is written.
struct Count(u64);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One file in a tar in zstd, without times, owners and names of this machine. Its size stands before it, so the text is
/// made twice instead of being held.
pub(super) fn pack(bundle: &Bundle, out: impl io::Write) -> io::Result<()> {
    let mut count = Count(0);
    write_json(bundle, &mut count)?;
    let mut header = tar::Header::new_ustar();
    header.set_path(FILE)?;
    header.set_size(count.0);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_cksum();
    let mut archive = BufWriter::new(zstd::Encoder::new(out, LEVEL)?);
    archive.write_all(header.as_bytes())?;
    write_json(bundle, &mut archive)?;
    // To the end of the last block, and two empty ones.
    let rest = (BLOCK - count.0 % BLOCK) % BLOCK + 2 * BLOCK;
    io::copy(&mut io::repeat(0).take(rest), &mut archive)?;
    let encoder = archive
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    encoder.finish()?.flush()
}

/// What an archive held.
pub(super) enum Unpacked {
    Found(Vec<u8>),
    Several,
    Nothing,
    TooLarge(u64),
}

pub(super) fn unpack(packed: impl io::BufRead, limits: Limits) -> io::Result<Unpacked> {
    let mut decoder = zstd::Decoder::with_buffer(packed)?;
    decoder.window_log_max(WINDOW_LOG)?;
    let mut plain = decoder.take(limits.archive);
    let found = find(&mut plain, limits.json);
    // A limit that cuts an archive short looks like a broken archive.
    if plain.limit() == 0 && !matches!(found, Ok(Unpacked::Several)) {
        return Ok(Unpacked::TooLarge(limits.archive));
    }
    found
}

fn find(plain: impl Read, limit: u64) -> io::Result<Unpacked> {
    let mut archive = tar::Archive::new(plain);
    let mut found = None;
    for entry in archive.entries()? {
        let entry = entry?;
        let named = entry.path_bytes().rsplit(|byte| *byte == b'/').next() == Some(FILE.as_bytes());
        if !named || !entry.header().entry_type().is_file() {
            continue;
        }
        if found.is_some() {
            return Ok(Unpacked::Several);
        }
        match bounded(entry, limit)? {
            Some(json) => found = Some(json),
            None => return Ok(Unpacked::TooLarge(limit)),
        }
    }
    Ok(found.map_or(Unpacked::Nothing, Unpacked::Found))
}

/// All bytes, or nothing where there are more than the limit.
pub(super) fn bounded(from: impl Read, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}
